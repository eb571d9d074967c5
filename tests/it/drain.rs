//! SIGTERM: new calls are rejected, running calls may end, the others are settled, and waiting calls run after the next
//! start.

use serde_json::{Value, json};

use crate::support::calls::gated;
use crate::support::{Backend, HttpTool, Node, Response, eventually};

mod after;
mod during;

/// Starts a node with this drain time.
async fn node(backend: Backend, drain_ms: &str) -> Node {
    Node::start(backend, &[("TOOLPOST__SERVER__DRAIN_MS", drain_ms)]).await
}

/// Starts a node with a running call of the tool `act`, whose server is gated.
async fn busy(backend: Backend, drain_ms: &str, more: Value) -> (Node, HttpTool, tokio::task::JoinHandle<Response>) {
    let (node, server) = (node(backend, drain_ms).await, gated("in time").await);
    node.tool("act", &server, more).await;
    let waiting = node.posted(json!({"name": "act"}));
    server.received(1).await;
    (node, server, waiting)
}

/// Sends SIGTERM and waits until the service stops accepting calls.
async fn terminate(node: &Node) {
    node.signal("TERM");
    eventually("the service to stop accepting", || async {
        let answer = node.get("/readyz").await;
        (answer.status == 503).then_some(())
    })
    .await;
}

/// Checks for a 503 with `Retry-After`.
fn turned_away(answer: Response) {
    assert!(!answer.header("retry-after").is_empty() && answer.header("location").is_empty());
    assert_eq!(answer.problem(503)["code"], "SHUTTING_DOWN");
}
