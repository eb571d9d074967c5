//! Attempts after the first: of which failures, of which tools, and when.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::calls::{idempotent, with};
use crate::support::{Answer, App, Backend, HttpTool};

mod refused;
mod schedule;
mod tried;
mod unrecorded;

/// A server that gives these answers in turn, the last one for ever.
async fn answers(answers: Vec<Answer>) -> HttpTool {
    let asked = AtomicUsize::new(0);
    HttpTool::start("127.0.0.1", move |_| {
        let place = asked.fetch_add(1, Ordering::SeqCst);
        answers[place.min(answers.len() - 1)].clone()
    })
    .await
}

/// A failure that may pass.
fn unavailable() -> Answer {
    Answer::status(503, "text/plain", "not now")
}

/// Fails twice, then answers.
async fn third_time_lucky() -> HttpTool {
    answers(vec![unavailable(), unavailable(), Answer::text("done")]).await
}

/// Three attempts without a wait worth the name.
fn three() -> Value {
    json!({"max_attempts": 3, "initial_backoff_ms": 1, "jitter": 0})
}

/// A tool `t` that may be repeated, three attempts.
async fn patient(backend: Backend, server: &HttpTool, more: Value) -> App {
    let app = App::with_egress(backend).await;
    app.tool("t", server, with(json!({"annotations": idempotent(), "retry": three()}), more)).await;
    app
}
