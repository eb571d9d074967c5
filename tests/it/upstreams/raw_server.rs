//! An upstream server over HTTP that sends the given JSON, including members that rmcp's types do not have.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server on a free port, of the revision before the newest. Stopped on drop.
pub struct RawServer {
    port: u16,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct ServerScript {
    tools: Value,
    in_events: bool,
}

impl RawServer {
    /// Starts a server with these tools that responds with JSON or with event streams.
    pub async fn start(tools: Value, in_events: bool) -> Self {
        let router = Router::new().route("/mcp", post(answer)).with_state(ServerScript { tools, in_events });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(ServerScript { tools, in_events }): State<ServerScript>, message: axum::Json<Value>) -> Response {
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
    match message["method"].as_str() {
        Some("initialize") => {
            answer["result"] = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"}});
        }
        Some("tools/list") => answer["result"] = json!({ "tools": tools }),
        _ => answer["error"] = json!({"code": -32601, "message": "no such method"}),
    }
    if in_events && message["method"] == "tools/list" {
        let log =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
        let body = format!(": hello\n\ndata: {log}\n\nid: 1\nevent: message\ndata: {answer}\n\n");
        return ([("content-type", "text/event-stream")], body).into_response();
    }
    axum::Json(answer).into_response()
}
