//! Several nodes on one database, without a gateway that keeps a client at one of them: any node serves any request.

use serde_json::Value;

use crate::support::shapes::failed;
use crate::support::{App, Backend, Client, HttpTool, eventually};

mod arguments;
mod gateway;
mod mcp;
mod mcp_streams;
mod requests;
mod scaling;
mod subscriber;
mod watchers;

/// Starts two nodes on one database.
async fn two() -> (App, App) {
    let one = App::start(Backend::Postgres).await;
    let other = one.second().await;
    (one, other)
}

/// Starts two nodes on one database, with an `http` tool of `server` that has further members in its definition. Both
/// nodes know the tool.
async fn two_with(server: &HttpTool, name: &str, more: Value) -> (App, App) {
    let one = App::with_egress(Backend::Postgres).await;
    one.tool(name, server, more).await;
    let other = one.second().await;
    (one, other)
}

/// Waits until a node knows that the service has keys now.
async fn requires_keys(node: &Client) {
    eventually("the keys at the node", async || (node.get("/tools").await.status == 401).then_some(())).await;
}

/// Waits until the call has ended, and returns it.
async fn ended(node: &Client, id: &str) -> Value {
    node.get(&format!("/tool-calls/{id}?wait_ms=30000")).await.ok()
}

/// Checks that a call was cancelled.
fn aborted(call: &Value) {
    failed(call, "CANCELLED");
}
