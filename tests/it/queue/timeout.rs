//! `queue_timeout_ms`: the maximum time in the queue.

use serde_json::{Value, json};

use crate::support::calls::{assert_counts, gated};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::statuses;
use crate::support::{App, Backend, HttpTool};

const TOO_LATE: &str = "Error: Tool execution timeout after 50ms (queue_timeout_ms)";

/// Starts a tool with one slot, which is occupied.
async fn busy(backend: Backend) -> (App, HttpTool, String) {
    let (app, server) = (App::with_egress(backend).await, gated("done").await);
    app.tool("job", &server, json!({"limits": {"max_concurrency": 1}})).await;
    let running = app.accepted(json!({"name": "job", "wait": "accepted"})).await;
    server.received(1).await;
    (app, server, running)
}

/// Checks that the call ended without running.
fn never_ran(call: &Value) {
    assert_eq!(failed(call, "TOOL_TIMEOUT"), TOO_LATE);
    assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
    assert_eq!((&call["error"]["retryable"], &call["limits"]["queue_timeout_ms"]), (&json!(true), &json!(50)));
}

on_both_databases!(
    async fn call_that_waits_too_long_ends_and_never_runs(backend: Backend) {
        let (app, server, running) = busy(backend).await;
        let limits = json!({"queue_timeout_ms": 50});
        never_ran(&app.call_with(json!({"name": "job", "limits": limits})).await);
        let id = app.sent(json!({"name": "job", "limits": limits, "wait": "accepted"})).await;
        never_ran(&app.ended(&id).await);
        let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!(statuses(&events), ["WAIT", "ERROR"]);
        server.open();
        succeeded(&app.ended(&running).await);
        assert_eq!(server.requests().len(), 1);
        let expected = json!({"execution_count": 1, "success_count": 1, "failure_count": 0, "rejected_count": 2,
            "rejected_by_code": {"TOOL_TIMEOUT": 2}});
        assert_counts(&app.stats("job").await, expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn queue_timeout_ends_with_the_slot_and_not_with_the_run() {
    let app = App::on_sqlite().await;
    // The call runs longer than the queue timeout.
    let body = json!({"name": "wait", "arguments": {"ms": 300}, "limits": {"queue_timeout_ms": 250}});
    succeeded(&app.call_with(body).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_batch_that_waits_too_long_affects_no_other() {
    let (app, server, _) = busy(Backend::Sqlite).await;
    let calls = json!([{"name": "job", "limits": {"queue_timeout_ms": 50}}, {"name": "job"}]);
    let batch = app.posted(json!({"calls": calls, "mode": "parallel"}));
    crate::support::eventually("the first to end", || async {
        app.all_calls().await.iter().any(|call| call["status"] == "ERROR").then_some(())
    })
    .await;
    server.open();
    let results = batch.await.unwrap().ok()["results"].clone();
    never_ran(&results[0]);
    assert_eq!(succeeded(&results[1]), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_does_not_pause_a_tool() {
    let (app, server, _) = busy(Backend::Sqlite).await;
    for _ in 0..4 {
        never_ran(&app.call_with(json!({"name": "job", "limits": {"queue_timeout_ms": 50}})).await);
    }
    assert_eq!(app.get("/tools/job").await.ok()["paused"], Value::Null);
    server.open();
    succeeded(&app.call("job", json!({})).await);
}
