//! The official SDKs in other languages: over HTTP, and with `toolpost mcp` as a child process.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{ended, node};
use crate::gateway::Nginx;
use crate::support::fixture::project_file;
use crate::support::{App, Backend, Database, LIMIT, Options, assert_surface};

const HINT: &str = "`scripts/test` installs what the clients are run with";

fn client(file: &str) -> (PathBuf, PathBuf) {
    let clients = project_file("tests/clients");
    let program = if file.ends_with(".py") { clients.join("python/.venv/bin/python") } else { node() };
    (program, clients.join(file))
}

/// Runs a client program to its end; it prints `ok` if all its checks pass.
pub(super) async fn is_content(file: &str, arguments: &[&str]) {
    assert_surface();
    let (program, file) = client(file);
    let mut command = Command::new(&program);
    command.arg(&file).args(arguments).kill_on_drop(true).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("the client ends");
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{} cannot be started ({error}); {HINT}", program.display()));
    let text = String::from_utf8_lossy(&stdout);
    let is_ok = status.success() && text.lines().next_back() == Some("ok");
    assert!(is_ok, "{} {arguments:?}: {status}\n{text}\n{}\n{HINT}", file.display(), String::from_utf8_lossy(&stderr));
}

/// Checks that the call that the client cancelled last is stored as cancelled.
async fn is_cancelled(app: &App) {
    let last: Value = ended(app, "wait").await;
    assert_eq!(last["error"]["code"], "CANCELLED", "{last}");
}

async fn over_http(file: &str, mode: Option<&str>) {
    let app = App::on_sqlite().await;
    app.echo_of("client.echo", json!({})).await;
    let url = app.url("/mcp");
    let arguments: Vec<&str> = mode.into_iter().chain([url.as_str()]).collect();
    is_content(file, &arguments).await;
    is_cancelled(&app).await;
}

/// Runs the client behind a gateway that forwards its requests to three nodes in turn.
async fn over_gateway(file: &str, mode: Option<&str>) {
    let app = App::start(Backend::Postgres).await;
    app.echo_of("client.echo", json!({})).await;
    let (second, third) = (app.second().await, app.second().await);
    let nginx = Nginx::before_all(&[&app, &second, &third]).await;
    let url = nginx.client().url("/mcp");
    let arguments: Vec<&str> = mode.into_iter().chain([url.as_str()]).collect();
    is_content(file, &arguments).await;
    is_cancelled(&app).await;
}

/// Runs the client over stdio, next to a service on the same database that shows its calls.
async fn over_stdio(file: &str, mode: &str) {
    let database = Database::fresh(Backend::Sqlite).await;
    let app = App::start_at(database.url.clone(), Options::default()).await;
    app.echo_of("client.echo", json!({})).await;
    let program = env!("CARGO_BIN_EXE_toolpost");
    is_content(file, &[mode, "--", program, "mcp", "--database-url", &database.url]).await;
    is_cancelled(&app).await;
}

macro_rules! clients {
    ($($name:ident: $way:ident($file:literal, $mode:expr);)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "surfaces"]
        async fn $name() {
            $way($file, $mode).await;
        }
    )+};
}

clients! {
    the_typescript_sdk_over_http: over_http("mcp_client.mjs", Some("modern"));
    the_typescript_sdk_over_http_before_2026: over_http("mcp_client.mjs", Some("legacy"));
    the_typescript_sdk_of_yesterday_over_http: over_http("mcp_client_v1.mjs", None);
    the_typescript_sdk_over_a_gateway: over_gateway("mcp_client.mjs", Some("modern"));
    the_typescript_sdk_over_a_gateway_before_2026: over_gateway("mcp_client.mjs", Some("legacy"));
    the_typescript_sdk_of_yesterday_over_a_gateway: over_gateway("mcp_client_v1.mjs", None);
    the_python_sdk_over_a_gateway_before_2026: over_gateway("python/mcp_client.py", Some("legacy"));
    the_typescript_sdk_over_stdio: over_stdio("mcp_client.mjs", "legacy");
    the_python_sdk_over_http: over_http("python/mcp_client.py", Some("modern"));
    the_python_sdk_over_http_before_2026: over_http("python/mcp_client.py", Some("legacy"));
    the_python_sdk_over_stdio: over_stdio("python/mcp_client.py", "modern");
}
