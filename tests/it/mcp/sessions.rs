//! Clients before 2026-07-28, with and without a session.

use reqwest::Method;
use serde_json::{Value, json};

use super::posted;
use crate::support::client::send;
use crate::support::{App, Backend, Client, Options, Response};

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

/// Returns the message of a response, which is JSON or a stream.
pub fn message(answer: &Response) -> Value {
    if answer.json.is_object() {
        return answer.json.clone();
    }
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).next_back().unwrap_or_default()
}

/// Initializes a session and returns its id.
pub async fn session(client: &Client) -> String {
    let begun = send(posted(client, &initialize())).await;
    assert_eq!(message(&begun)["result"]["protocolVersion"], "2025-11-25", "{}", begun.text());
    let id = begun.header("mcp-session-id").to_owned();
    assert!(!id.is_empty());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(posted(client, &ready).header("mcp-session-id", &id)).await.status, 202);
    id
}

fn calculate() -> Value {
    let params = json!({"name": "calculate", "arguments": {"expression": "1 + 1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn session_exists_until_it_is_deleted() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let answer = send(posted(&app, &calculate()).header("mcp-session-id", &id)).await;
    assert_eq!(message(&answer)["result"]["content"][0]["text"], "2");
    let deleted = send(app.request(Method::DELETE, "/mcp").header("mcp-session-id", &id)).await;
    assert_eq!(deleted.status, 200);
    send(posted(&app, &calculate()).header("mcp-session-id", &id)).await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_can_be_called_without_a_session() {
    let app = App::on_sqlite().await;
    let answer = send(posted(&app, &calculate()).header("mcp-protocol-version", "2025-06-18")).await.ok();
    assert_eq!(answer["result"]["content"][0]["text"], "2");
    // Members that the current revision added are not sent to older clients.
    assert_eq!(answer["result"].get("resultType"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_beyond_the_session_limit_is_served_without_one() {
    let one = |config: &mut toolpost::config::Config| config.mcp.sessions = 1;
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(one), ..Options::default() }).await;
    session(&app).await;
    let second = send(posted(&app, &initialize())).await;
    assert_eq!((second.status, second.header("mcp-session-id")), (200, ""));
    assert_eq!(message(&second)["result"]["serverInfo"]["name"], "toolpost");
    let none = |config: &mut toolpost::config::Config| config.mcp.sessions = 0;
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(none), ..Options::default() }).await;
    assert_eq!(send(posted(&app, &initialize())).await.header("mcp-session-id"), "");
    assert_eq!(send(app.request(Method::GET, "/mcp")).await.status, 405);
}
