//! The wheel `toolpost-server`.

use tokio::process::Command;

use super::{answers_a_call, build, installed, run};
use crate::support::fixture::project_file;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn program_in_a_clean_environment_answers_a_call() {
    let package = build("wheel").await;
    let home = tempfile::tempdir().unwrap();
    let python = project_file("packaging/pypi/.venv/bin/python");
    let environment = home.path().join("venv");
    let mut create = Command::new(&python);
    create.args(["-m", "venv", "--without-pip"]).arg(&environment);
    run(create).await;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(&environment);
    install.args(["install", "--quiet", "--no-index"]).arg(&package.file);
    run(install).await;

    let programs = environment.join("bin");
    let mut version = installed(programs.join("toolpost"), home.path());
    version.arg("--version");
    assert_eq!(run(version).await, format!("toolpost {}\n", env!("CARGO_PKG_VERSION")));
    let mut serve = installed(programs.join("toolpost-server"), home.path());
    serve.arg("serve");
    assert_eq!(answers_a_call(serve).await.code, Some(0));
}
