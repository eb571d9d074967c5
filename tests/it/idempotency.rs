//! Repeated requests: `Idempotency-Key`, and `"dedupe": "call_id"`.

use serde_json::{Value, json};

use crate::support::calls::{gated, id_of};
use crate::support::{Answer, App, Backend, Client, HttpTool, Response};

mod call_id;
mod joined;
mod replay;
mod reused;

/// Starts a service with the tool `act`, which is not idempotent and whose server answers at once.
async fn service(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::text("done")).await);
    app.http_tool("act", &server).await;
    (app, server)
}

/// Starts a service with the tool `act`, whose server is gated.
async fn shut(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, gated("done").await);
    app.http_tool("act", &server).await;
    (app, server)
}

async fn keyed(client: &Client, key: &str, body: &Value) -> Response {
    client.post_with("/tool-calls", &[("idempotency-key", key)], body).await
}

fn act() -> Value {
    json!({"name": "act", "arguments": {"a": 1}})
}

/// Checks that these are all the same call, and that no other call is stored.
async fn only_call(app: &App, calls: &[Value]) {
    let stored = app.all_calls().await;
    assert_eq!(stored.len(), 1);
    assert!(calls.iter().all(|call| id_of(call) == id_of(&stored[0])), "{calls:#?}");
}
