//! How many calls a worker takes.

use serde_json::json;
use tokio::sync::mpsc;
use toolpost::tool::tool_fn;

use super::{Number, Working, worker};
use crate::support::shapes::succeeded;
use crate::support::stall::Stall;
use crate::support::{App, Backend, bounded};

/// On PostgreSQL, because the claims of SQLite wait for the same lock as the results.
#[tokio::test(flavor = "multi_thread")]
async fn call_whose_result_is_sent_uses_no_slot() {
    requires_postgres!();
    let app = App::start(Backend::Postgres).await;
    let (begins, mut begun) = mpsc::unbounded_channel();
    let tool = tool_fn("t", "Returns n.", move |number: Number| {
        begins.send(number.n).unwrap();
        Ok(number.n)
    });
    // Registers the tool, so that calls wait before the next worker claims.
    Working::with(&app, worker(&app, [tool.clone()]), "t").await.stopped().await;
    let mut calls = Vec::new();
    for n in 0..3 {
        calls.push(app.accepted(json!({"name": "t", "arguments": {"n": n}, "wait": "accepted"})).await);
    }
    let stall = Stall::begin(&app).await;
    let working = Working::start(worker(&app, [tool]).concurrency(1));
    // No result is recorded, but the second call runs. The third waits for one of the two.
    let mut numbers = Vec::new();
    for call in ["the first call", "the second call"] {
        numbers.push(bounded(call, begun.recv()).await.unwrap());
    }
    assert!(begun.try_recv().is_err());
    stall.end().await;
    numbers.push(bounded("the third call", begun.recv()).await.unwrap());
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(succeeded(&app.ended(call).await), n.to_string());
    }
    working.stopped().await;
}
