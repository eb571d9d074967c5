//! The package `toolpost` for Python: its types, and its own tests, run against the service.

use std::time::Duration;

use tokio::process::Command;

use crate::support::fixture::project_file;

/// Maximum duration of one program, with a wide margin.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
const HINT: &str = "`scripts/test` installs what it is run with";

/// Runs a module of Python in the folder of the package. Panics if it fails.
async fn run(module: &str) {
    let package = project_file("clients/python");
    let mut command = Command::new(package.join(".venv/bin/python"));
    command.args(["-m", module]).current_dir(&package).env("TOOLPOST_BIN", env!("CARGO_BIN_EXE_toolpost"));
    let command = command.env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    let output = tokio::time::timeout(RUN_TIMEOUT, command.output()).await.expect("it ends");
    let output = output.unwrap_or_else(|error| panic!("python: {error}; {HINT}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{module}: {}\n{text}\n{HINT}", output.status);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn package_is_strictly_typed() {
    run("mypy").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn package_passes_its_tests() {
    run("pytest").await;
}
