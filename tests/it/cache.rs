//! The result cache: an equal call of an idempotent tool gets the result of an earlier call.

mod definitions;
mod expiry;
mod flights;
mod hits;
mod scopes;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::calls::{idempotent, with};
use crate::support::{Answer, App, Backend, HttpTool};

/// Starts a server that answers each request with the number of the run.
async fn numbered() -> HttpTool {
    let runs = AtomicUsize::new(0);
    HttpTool::start("127.0.0.1", move |_| Answer::text(&format!("run {}", runs.fetch_add(1, Ordering::Relaxed) + 1)))
        .await
}

/// Returns members of a definition that share its results among all callers.
fn global() -> Value {
    json!({"annotations": idempotent(), "cache": {"ttl_ms": 3_600_000, "scope": "global"}})
}

/// Starts a service with the tool `t`, whose results all callers share.
async fn app_with(backend: Backend, server: &HttpTool) -> App {
    let app = App::with_egress(backend).await;
    app.tool("t", server, global()).await;
    app
}

/// Calls `t` with these headers.
async fn call_with(app: &App, headers: &[(&str, &str)]) -> Value {
    app.post_with("/tool-calls", headers, &json!({"name": "t", "arguments": {"n": 1}})).await.ok()
}

/// Calls `t` with additional members.
async fn call(app: &App, more: Value) -> Value {
    app.call_with(with(json!({"name": "t", "arguments": {"n": 1}}), more)).await
}
