//! Cancellation in every phase of a call.

use serde_json::{Value, json};

use super::aborted;
use crate::support::calls::{assert_counts, gated, idempotent};
use crate::support::shapes::succeeded;
use crate::support::sse::{count, statuses};
use crate::support::{Answer, App, Backend, Client, HttpTool};

/// Returns the call's statuses, and checks that its history has exactly one end.
async fn history(client: &Client, id: &str) -> Vec<String> {
    let events = client.events(&format!("/tool-calls/{id}/events")).await.rest().await;
    assert_eq!(count(&events, "tool_result"), 1, "{events:#?}");
    statuses(&events).into_iter().map(str::to_owned).collect()
}

on_both_databases!(
    async fn waiting_call_ends_immediately_and_never_runs(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
        let running = app.accepted(json!({"name": "job"})).await;
        server.received(1).await;
        let waiting = app.accepted(json!({"name": "job"})).await;
        app.cancel(&waiting).await;
        let call = app.stored(&waiting).await;
        aborted(&call);
        assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
        assert_eq!(history(&app, &waiting).await, ["WAIT", "ERROR"]);
        server.open();
        assert_eq!(succeeded(&app.ended(&running).await), "done");
        // A call accepted later runs after the cancelled call.
        let last = app.sent(json!({"name": "job"})).await;
        succeeded(&app.ended(&last).await);
        assert_eq!(server.requests().len(), 2);
        let expected = json!({"execution_count": 2, "failure_count": 0, "rejected_by_code": {"CANCELLED": 1}});
        assert_counts(&app.stats("job").await, expected);
    }
);

on_both_databases!(
    async fn running_call_is_stopped_and_its_connection_closed(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.tool("job", &server, json!({"async": true})).await;
        let id = app.accepted(json!({"name": "job"})).await;
        server.received(1).await;
        app.cancel(&id).await;
        server.closed().await;
        let call = app.ended(&id).await;
        aborted(&call);
        assert_eq!(call["attempts"], 1);
        assert_eq!(history(&app, &id).await, ["WAIT", "DOING", "ERROR"]);
        let expected = json!({"execution_count": 1, "failures_by_code": {"CANCELLED": 1}, "rejected_count": 0});
        assert_counts(&app.stats("job").await, expected);
    }
);

on_both_databases!(
    async fn waiting_caller_is_answered(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.http_tool("act", &server).await;
        let waiting = app.posted(json!({"name": "act"}));
        server.received(1).await;
        let id = app.only("act").await;
        app.cancel(&id).await;
        let call = waiting.await.unwrap().ok();
        aborted(&call);
        assert_eq!(app.stored(&id).await, call);
        server.closed().await;
    }
);

on_both_databases!(
    async fn call_between_attempts_makes_no_other(backend: Backend) {
        let busy = Answer::status(503, "text/plain", "busy");
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(busy).await);
        let retry = json!({"max_attempts": 9, "initial_backoff_ms": 600_000, "max_backoff_ms": 600_000});
        app.tool("job", &server, json!({"async": true, "annotations": idempotent(), "retry": retry})).await;
        let id = app.accepted(json!({"name": "job"})).await;
        app.in_phase(&id, "retrying").await;
        app.cancel(&id).await;
        let call = app.ended(&id).await;
        aborted(&call);
        assert_eq!((&call["attempts"], server.requests().len()), (&json!(1), 1));
        assert_counts(&app.stats("job").await, json!({"execution_count": 1, "failures_by_code": {"CANCELLED": 1}}));
    }
);

on_both_databases!(
    async fn external_call_ends(backend: Backend) {
        let app = App::start(backend).await;
        app.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}}))
            .await;
        let id = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
        app.in_phase(&id, "external").await;
        app.cancel(&id).await;
        let call = app.ended(&id).await;
        aborted(&call);
        let late = app.post(&format!("/tool-calls/{id}/result"), &json!("too late")).await.ok();
        assert_eq!(late["ignored"], true);
        assert_eq!(app.stored(&id).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn builtin_is_stopped() {
    let app = App::on_sqlite().await;
    let id = app.accepted(json!({"name": "wait", "arguments": {"ms": 300_000}, "wait": 1})).await;
    app.in_phase(&id, "running").await;
    app.cancel(&id).await;
    aborted(&app.ended(&id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waiting_for_its_batch_never_runs() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.http_tool("act", &server).await;
    let calls: Vec<Value> = ["a", "b", "c"].iter().map(|id| json!({"name": "act", "id": id})).collect();
    let batch = app.posted(json!({"calls": calls, "mode": "serial"}));
    server.received(1).await;
    let waiting = crate::support::eventually("the second call to be seen", || async {
        app.all_calls().await.into_iter().find(|call| call["call_id"] == "b")
    })
    .await;
    app.cancel(waiting["id"].as_str().unwrap()).await;
    server.open();
    let results = batch.await.unwrap().ok()["results"].clone();
    assert_eq!((succeeded(&results[0]), succeeded(&results[2])), ("done", "done"));
    aborted(&results[1]);
    assert_eq!((&results[1]["attempts"], server.requests().len()), (&json!(0), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_another_node_can_be_cancelled() {
    requires_postgres!();
    let (app, server) = (App::with_egress(Backend::Postgres).await, HttpTool::answering(Answer::Never).await);
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    let other = app.second().await;
    let running = app.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    let waiting = app.accepted(json!({"name": "job"})).await;
    for id in [waiting, running] {
        other.cancel(&id).await;
        aborted(&app.ended(&id).await);
    }
    server.closed().await;
    assert_eq!(server.requests().len(), 1);
}
