//! The npm package `toolpost-server`.

use std::fs;

use serde_json::Value;
use tokio::process::Command;

use super::{Package, answers_a_call, build, installed, run};
use crate::support::fixture::project_file;

/// Installs the package in an empty folder without a network, and returns the folder.
async fn install(package: &Package) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("package.json"), r#"{"private": true}"#).unwrap();
    let mut install = installed("npm", home.path());
    install.args(["install", "--offline", "--no-audit", "--no-fund", "--silent"]).arg(&package.file);
    run(install).await;
    home
}

fn npx(home: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = installed("npx", home.path());
    command.args(["--offline", "--no-install", "toolpost-server"]).args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn program_in_a_clean_folder_answers_a_call() {
    let home = install(&build("npm").await).await;
    let modules = home.path().join("node_modules").read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let packages: Vec<_> = modules.filter(|name| !name.to_str().unwrap().starts_with('.')).collect();
    assert_eq!(packages, ["toolpost-server"]);

    let mut launcher = installed(home.path().join("node_modules/.bin/toolpost-server"), home.path());
    launcher.arg("serve");
    assert_eq!(answers_a_call(launcher).await.code, Some(0));
    // Depending on the shell in between, npx ends with the code of the service or by the signal.
    let ended = answers_a_call(npx(&home, &["serve"])).await;
    assert!(matches!(ended.code, Some(0) | None), "{ended:?}");

    let wrong = npx(&home, &["serve", "--listen", "nowhere"]).output().await.unwrap();
    assert_eq!(wrong.status.code(), Some(2), "the exit code is the program's: {wrong:?}");
}

#[test]
fn manifest_has_the_version_of_the_crate() {
    let text = fs::read_to_string(project_file("packaging/npm/package.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
}
