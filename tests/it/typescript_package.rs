//! The package `toolpost` for TypeScript: its own tests, run against the service.

use std::time::Duration;

use tokio::process::Command;

use crate::support::fixture::project_file;

/// Maximum duration of the tests, with a wide margin.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn package_compiles_strictly_and_passes_its_tests() {
    let mut command = Command::new("npm");
    command.args(["run", "--silent", "test"]).current_dir(project_file("clients/typescript"));
    command.env("TOOLPOST_BIN", env!("CARGO_BIN_EXE_toolpost")).kill_on_drop(true);
    let output = tokio::time::timeout(RUN_TIMEOUT, command.output()).await.expect("it ends").expect("npm starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n`scripts/test` installs what it is run with", output.status);
}
