//! The packages of the server. Each is built from the program of the tests and installed in an empty folder, and answers a call.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::cli::program::{Program, ProgramOutput};
use crate::support::Client;
use crate::support::fixture::project_file;

mod crates;
mod debian;
mod npm;
mod tarball;
mod unit;
mod wheel;

/// Maximum duration of one program, with a wide margin.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// A package that is not installed, with the checksums next to it.
struct Package {
    file: PathBuf,
    folder: TempDir,
}

/// Builds a package with `scripts/packages`.
async fn build(name: &str) -> Package {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(project_file("scripts/packages"));
    command.args(["--fast", "--program", env!("CARGO_BIN_EXE_toolpost"), "--out"]).arg(folder.path()).arg(name);
    run(command).await;
    let found = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = found.filter(|file| !file.ends_with("SHA256SUMS")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    Package { file: files.remove(0), folder }
}

/// Runs a program to its end and returns its standard output. Panics if it fails.
async fn run(mut command: Command) -> String {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(RUN_TIMEOUT, command.output()).await.expect("it ends");
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; `scripts/test` installs what is missing"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Returns a command of an installed package, with `home` as its home and without this process's environment.
fn installed(program: impl AsRef<Path>, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home).current_dir(home);
    command
}

/// Starts the service with an installed command, calls a tool and stops the service with SIGTERM. Returns how the command ended.
async fn answers_a_call(mut command: Command) -> ProgramOutput {
    command.env("TOOLPOST_LISTEN", "127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let starting = tokio::task::spawn_blocking(move || {
        let mut program = Program::start(command.as_std_mut());
        let line = program.out("toolpost listening on ");
        (program, line)
    });
    let (program, line) = starting.await.expect("it starts");
    let client = Client::new(line.trim_start_matches("toolpost listening on "));
    let call = client.call("calculate", json!({"expression": "6 * 7"})).await;
    assert_eq!((&call["status"], &call["output"]), (&json!("SUCCESS"), &json!("42")), "{call}");
    program.signal("TERM");
    // The output ends with the last process that has it, so no process of the package remains.
    let ended = tokio::task::spawn_blocking(move || program.end()).await.expect("it ends");
    assert!(ended.err.contains("SIGTERM: draining"), "{ended:?}");
    ended
}
