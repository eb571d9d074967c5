//! The screens in Chromium, driven by the files of `tests/console/browser` against running services.
//!
//! The files run next to each other, each with a service of its own. They share one browser, in which each page has a context of
//! its own.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::gateway::Nginx;
use crate::support::App;
use crate::support::fixture::project_file;

/// Maximum duration of one program, with a wide margin.
const PROGRAM_LIMIT: Duration = Duration::from_secs(3600);
const HINT: &str = "`scripts/test` installs what it is run with";

/// Files that may run at once: enough to keep two processors busy.
static SLOTS: Semaphore = Semaphore::const_new(3);

/// The browser of this process.
static BROWSER: LazyLock<Browser> = LazyLock::new(Browser::start);

struct Browser {
    /// Ends when its input is closed, at the latest with this process.
    _program: Child,
    address: String,
}

impl Browser {
    fn start() -> Self {
        let mut command = Command::new("node");
        command.arg("browser.mjs").current_dir(project_file("tests/console"));
        let program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut program = program.unwrap_or_else(|error| panic!("node: {error}; {HINT}"));
        let mut address = String::new();
        let output = program.stdout.take().expect("the output is piped");
        BufReader::new(output).read_line(&mut address).expect("the output is text");
        assert!(address.starts_with("ws"), "the browser does not start; {HINT}");
        Self { _program: program, address: address.trim().to_owned() }
    }
}

/// Runs a program of `tests/console` with these environment variables. Panics if it fails.
async fn run(program: &[&str], variables: &[(&str, &str)]) {
    let mut command = tokio::process::Command::new(program[0]);
    command.args(&program[1..]).current_dir(project_file("tests/console"));
    let command = command.envs(variables.iter().copied()).kill_on_drop(true);
    let output = tokio::time::timeout(PROGRAM_LIMIT, command.output()).await.expect("it ends");
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; {HINT}", program[0]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {}\n{text}\n{HINT}", output.status);
}

/// Runs the tests of a file in the browser.
async fn browse(file: &str, variables: &[(&str, &str)]) {
    let _slot = SLOTS.acquire().await.expect("it is never closed");
    let browser = tokio::task::spawn_blocking(|| BROWSER.address.as_str()).await.expect("the browser starts");
    let variables = [variables, &[("TOOLPOST_BROWSER", browser)]].concat();
    run(&["node", "--test", &format!("browser/{file}.test.mjs")], &variables).await;
}

/// Runs a file against a service without keys.
async fn without_keys(file: &str) {
    let app = App::on_sqlite().await;
    browse(file, &[("TOOLPOST_URL", &app.url(""))]).await;
}

/// Runs a file against a service with keys, behind a gateway.
async fn with_keys(file: &str) {
    let app = App::on_sqlite().await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let nginx = Nginx::before(&app).await;
    browse(file, &[("TOOLPOST_URL", &nginx.client().url("")), ("TOOLPOST_KEY", &key)]).await;
}

/// Runs a file that starts the services itself, so that it can stop them.
async fn with_program(file: &str) {
    browse(file, &[("TOOLPOST_BIN", env!("CARGO_BIN_EXE_toolpost"))]).await;
}

macro_rules! files {
    ($($way:ident: $($file:ident),+;)+) => {
        /// The files that run.
        const FILES: &[&str] = &[$($(stringify!($file)),+),+];
        $(mod $way {$(
            #[tokio::test(flavor = "multi_thread")]
            #[ignore = "surfaces"]
            async fn $file() {
                super::$way(stringify!($file)).await;
            }
        )+})+
    };
}

files! {
    with_program: large, restart, inbox, upstream;
    with_keys: approvals, budgets, call, connection, csrf, live, policies, screens, sessions, stats, system, tools, xss;
    // What does not depend on keys is tried with keys only.
    without_keys: approvals, call, csrf, live, screens, system, tools;
}

#[test]
fn each_file_runs() {
    let folder = std::fs::read_dir(project_file("tests/console/browser")).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> = names.filter_map(|name| Some(name.strip_suffix(".test.mjs")?.to_owned())).collect();
    assert_eq!(found, FILES.iter().map(|file| (*file).to_owned()).collect());
}

#[tokio::test]
#[ignore = "surfaces"]
async fn modules_are_strictly_typed_and_pass_their_tests() {
    run(&["npm", "run", "--silent", "check"], &[]).await;
    run(&["npm", "run", "--silent", "unit"], &[]).await;
}
