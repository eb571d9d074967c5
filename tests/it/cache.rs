//! Results that are kept: an equal call of an idempotent tool gets the result of an earlier one.

mod definitions;
mod expiry;
mod flights;
mod hits;
mod scopes;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::calls::{idempotent, with};
use crate::support::{Answer, App, Backend, HttpTool};

/// A server whose every run says its number.
async fn numbered() -> HttpTool {
    let runs = AtomicUsize::new(0);
    HttpTool::start("127.0.0.1", move |_| Answer::text(&format!("run {}", runs.fetch_add(1, Ordering::Relaxed) + 1)))
        .await
}

/// What a definition says that keeps its results for everybody.
fn global() -> Value {
    json!({"annotations": idempotent(), "cache": {"ttl_ms": 3_600_000, "scope": "global"}})
}

/// A service with the tool `t`, whose results are kept for everybody.
async fn app_with(backend: Backend, server: &HttpTool) -> App {
    let app = App::with_egress(backend).await;
    app.tool("t", server, global()).await;
    app
}

/// One call of `t` with these headers.
async fn call_with(app: &App, headers: &[(&str, &str)]) -> Value {
    app.post_with("/tool-calls", headers, &json!({"name": "t", "arguments": {"n": 1}})).await.ok()
}

/// One call of `t` with more members.
async fn call(app: &App, more: Value) -> Value {
    app.call_with(with(json!({"name": "t", "arguments": {"n": 1}}), more)).await
}
