//! Clients generated from `/openapi.json` by `openapi-python-client` and `openapi-typescript`: generation causes no
//! warnings, the clients compile, and their calls work.

use std::path::Path;
use std::process::Output;

use tokio::process::Command;

use crate::support::App;
use crate::support::LIMIT;
use crate::support::fixture::project_file;

const HINT: &str = "`scripts/test` installs what it is run with";

/// Runs a program and returns its output. Panics if the program fails or warns.
async fn printed(command: &mut Command) -> String {
    let output = tokio::time::timeout(LIMIT, command.kill_on_drop(true).output()).await.expect("it ends");
    let Output { status, stdout, stderr } = output.unwrap_or_else(|error| panic!("{command:?}: {error}; {HINT}"));
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{text}\n{HINT}");
    assert!(!text.to_lowercase().contains("warn"), "{command:?}\n{text}");
    text
}

/// Returns the command of a program in `tests/clients` that runs in this folder.
fn program(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(project_file("tests/clients").join(name));
    command.current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONIOENCODING", "utf-8");
    command
}

fn has_worked(printed: &str) {
    for line in ["tools: ", "echo", "SUCCESS: Paris", "TOOL_NOT_FOUND", "batch: SUCCESS, SUCCESS"] {
        assert!(printed.contains(line), "no {line:?} in:\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn generated_python_client_calls_tools() {
    let app = App::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let files = project_file("tests/clients/generated");
    let mut generate = program(folder.path(), "python/.venv/bin/openapi-python-client");
    generate.args(["generate", "--fail-on-warning", "--meta", "none", "--output-path", "toolpost_client"]);
    generate.args(["--url", &app.url("/openapi.json"), "--config"]).arg(files.join("openapi-python-client.yaml"));
    // The generator formats its output with a tool from this folder.
    let programs = project_file("tests/clients/python/.venv/bin");
    let path =
        std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&std::env::var("PATH").unwrap())));
    printed(generate.env("PATH", path.unwrap())).await;

    let mut client = program(folder.path(), "python/.venv/bin/python");
    client.arg(files.join("client.py")).arg(app.url("")).env("PYTHONPATH", folder.path());
    has_worked(&printed(&mut client).await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn generated_typescript_client_is_strict_and_calls_tools() {
    let app = App::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let clients = project_file("tests/clients");
    std::os::unix::fs::symlink(clients.join("node_modules"), folder.path().join("node_modules")).unwrap();
    std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    std::fs::copy(clients.join("generated/client.ts"), folder.path().join("client.ts")).unwrap();
    let mut generate = program(folder.path(), "node_modules/.bin/openapi-typescript");
    printed(generate.arg(app.url("/openapi.json")).args(["--output", "schema.ts"])).await;

    let mut compile = program(folder.path(), "node_modules/.bin/tsc");
    compile.args(["--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]);
    printed(compile.args(["--module", "nodenext", "client.ts", "schema.ts"])).await;

    let mut client = Command::new("node");
    client.current_dir(folder.path()).args(["client.js", &app.url("")]);
    has_worked(&printed(&mut client).await);
}
