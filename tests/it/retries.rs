//! Retries: the failures and tools for which they happen, and their schedule.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::calls::{idempotent, with};
use crate::support::{Answer, App, Backend, HttpTool};

mod refused;
mod schedule;
mod tried;
mod unrecorded;

/// Starts a server that gives these responses in turn and repeats the last.
pub async fn answers(answers: Vec<Answer>) -> HttpTool {
    let requests = AtomicUsize::new(0);
    HttpTool::start("127.0.0.1", move |_| {
        let index = requests.fetch_add(1, Ordering::SeqCst);
        answers[index.min(answers.len() - 1)].clone()
    })
    .await
}

/// Returns a temporary failure.
fn unavailable() -> Answer {
    Answer::status(503, "text/plain", "not now")
}

/// Starts a server that fails twice, then succeeds.
async fn third_time_lucky() -> HttpTool {
    answers(vec![unavailable(), unavailable(), Answer::text("done")]).await
}

/// Returns a policy of three attempts with a negligible backoff.
fn three() -> Value {
    json!({"max_attempts": 3, "initial_backoff_ms": 1, "jitter": 0})
}

/// Starts a service with an idempotent tool `t` with three attempts.
async fn patient(backend: Backend, server: &HttpTool, more: Value) -> App {
    let app = App::with_egress(backend).await;
    app.tool("t", server, with(json!({"annotations": idempotent(), "retry": three()}), more)).await;
    app
}
