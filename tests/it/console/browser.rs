//! The screens in Chromium, driven by `tests/console` against a running service.

use std::time::Duration;

use serde_json::json;
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::gateway::Nginx;
use crate::support::App;
use crate::support::fixture::project_file;

/// Maximum duration of one program, with a wide margin.
const PATIENCE: Duration = Duration::from_secs(3600);
const HINT: &str = "`scripts/test` installs what it is run with";

/// Held during a run, because a browser uses all processors.
static BROWSER: Mutex<()> = Mutex::const_new(());

/// Runs a script of `tests/console/package.json`. Panics if it fails.
async fn run(script: &[&str], variables: &[(&str, &str)]) {
    let mut command = Command::new("npm");
    command.args(["run", "--silent"]).args(script).current_dir(project_file("tests/console"));
    let command = command.envs(variables.iter().copied()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends");
    let output = output.unwrap_or_else(|error| panic!("npm: {error}; {HINT}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script:?}: {}\n{text}\n{HINT}", output.status);
}

#[tokio::test]
#[ignore = "surfaces"]
async fn the_modules_are_strictly_typed_and_pass_their_tests() {
    run(&["check"], &[]).await;
    run(&["unit"], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn every_screen_works_without_keys_and_with_keys_behind_a_gateway() {
    let _browser = BROWSER.lock().await;
    let app = App::on_sqlite().await;
    // What does not depend on keys is tried with keys only.
    run(&["open"], &[("TOOLPOST_URL", &app.url(""))]).await;
    let app = App::on_sqlite().await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let nginx = Nginx::before(&app).await;
    run(&["browser"], &[("TOOLPOST_URL", &nginx.client().url("")), ("TOOLPOST_KEY", &key)]).await;
}

/// The tests start the program themselves, so that they can stop it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn restarts_large_histories_and_changed_upstream_tools_are_shown() {
    let _browser = BROWSER.lock().await;
    run(&["restart"], &[("TOOLPOST_BIN", env!("CARGO_BIN_EXE_toolpost"))]).await;
}
