//! Calls that wait at the signal: they never ran, so they run after the next start.

use serde_json::{Value, json};

use super::{busy, node, terminate};
use crate::support::calls::{assert_counts, gated, id_of, idempotent};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, Backend, HttpTool};

fn one_slot() -> Value {
    json!({"async": true, "limits": {"max_concurrency": 1}})
}

/// Starts a server that never answers the call `first` and answers all others at once.
async fn server() -> HttpTool {
    HttpTool::start("127.0.0.1", |request| match request.json()["call_id"].as_str() {
        Some("first") => Answer::Never,
        _ => Answer::text("later"),
    })
    .await
}

/// Starts a server that fails the first attempt and answers the next ones.
async fn moody() -> HttpTool {
    HttpTool::start("127.0.0.1", |request| match request.json()["attempt"].as_u64() {
        Some(1) => Answer::status(503, "text/plain", "busy"),
        _ => Answer::text("at last"),
    })
    .await
}

on_both_databases!(
    async fn accepted_waiting_call_runs_after_the_next_start(backend: Backend) {
        let (mut node, server) = (node(backend, "300").await, server().await);
        node.tool("job", &server, one_slot()).await;
        let running = node.accepted(json!({"name": "job", "id": "first"})).await;
        server.received(1).await;
        let waiting = [
            node.accepted(json!({"name": "job", "arguments": {"n": 1}})).await,
            node.accepted(json!({"name": "job", "arguments": {"n": 2}})).await,
        ];
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0));
        assert_eq!(server.requests().len(), 1, "what waits does not begin while the service stops");
        node.start_again().await;
        failed(&node.stored(&running).await, "SHUTTING_DOWN");
        for (id, n) in waiting.iter().zip(1..) {
            let call = node.ended(id).await;
            assert_eq!((succeeded(&call), &call["attempts"], &call["arguments"]["n"]), ("later", &json!(1), &json!(n)));
            let events = node.events(&format!("/tool-calls/{id}/events")).await.rest().await;
            assert_eq!((statuses(&events), count(&events, "tool_result")), (vec!["WAIT", "DOING", "SUCCESS"], 1));
        }
        assert_eq!(server.requests().len(), 3);
        let expected = json!({"execution_count": 3, "success_count": 2, "failures_by_code": {"SHUTTING_DOWN": 1}});
        assert_counts(&node.stats("job").await, expected);
    }
);

on_both_databases!(
    async fn accepted_batch_continues_after_the_next_start(backend: Backend) {
        let (mut node, server) = (node(backend, "300").await, server().await);
        node.http_tool("act", &server).await;
        let calls: Vec<Value> = ["first", "b", "c"].iter().map(|id| json!({"name": "act", "id": id})).collect();
        let body = json!({"calls": calls, "mode": "serial", "wait": "accepted"});
        let answer = node.post("/tool-calls", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let ids: Vec<String> = answer.json["results"].as_array().unwrap().iter().map(id_of).collect();
        server.received(1).await;
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0));
        assert_eq!(server.requests().len(), 1, "no turn comes while the service stops");
        node.start_again().await;
        failed(&node.stored(&ids[0]).await, "SHUTTING_DOWN");
        for id in &ids[1..] {
            assert_eq!(succeeded(&node.ended(id).await), "later");
        }
        let order: Vec<Value> = server.requests().iter().map(|request| request.json()["call_id"].clone()).collect();
        assert_eq!((order, server.max_running()), (vec![json!("first"), json!("b"), json!("c")], 2));
    }
);

on_both_databases!(
    async fn accepted_batch_starts_no_call_after_the_signal(backend: Backend) {
        let (mut node, server) = (node(backend, "60000").await, gated("done").await);
        node.http_tool("act", &server).await;
        let calls: Vec<Value> = ["first", "b"].iter().map(|id| json!({"name": "act", "id": id})).collect();
        let body = json!({"calls": calls, "mode": "serial", "wait": "accepted"});
        let answer = node.post("/tool-calls", &body).await;
        server.received(1).await;
        terminate(&node).await;
        server.open();
        assert_eq!(node.end().await.code, Some(0));
        assert_eq!(server.requests().len(), 1, "what waits does not begin while the service stops");
        node.start_again().await;
        for call in answer.json["results"].as_array().unwrap() {
            assert_eq!(succeeded(&node.ended(&id_of(call)).await), "done");
        }
        assert_eq!(server.requests().len(), 2);
    }
);

on_both_databases!(
    async fn accepted_call_between_attempts_continues_after_the_next_start(backend: Backend) {
        let (mut node, server) = (node(backend, "60000").await, moody().await);
        let retry = json!({"max_attempts": 2, "initial_backoff_ms": 3_000, "max_backoff_ms": 3_000});
        node.tool("job", &server, json!({"async": true, "annotations": idempotent(), "retry": retry})).await;
        let id = node.accepted(json!({"name": "job"})).await;
        node.in_phase(&id, "retrying").await;
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0), "nothing runs, so nothing is waited for");
        node.start_again().await;
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("at last", &json!(2)));
        assert_counts(&node.stats("job").await, json!({"execution_count": 1, "retry_count": 1}));
    }
);

on_both_databases!(
    async fn accepted_external_call_is_awaited_after_the_next_start(backend: Backend) {
        let mut node = node(backend, "100").await;
        let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
        node.register(definition).await;
        let id = node.accepted(json!({"name": "ask", "wait": "accepted"})).await;
        node.in_phase(&id, "external").await;
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        assert_eq!(node.stored(&id).await["phase"], "external");
        node.post(&format!("/tool-calls/{id}/result"), &json!("at last")).await.ok();
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("at last", &json!(1)));
    }
);

on_both_databases!(
    async fn caller_of_a_waiting_batch_is_answered_at_the_end(backend: Backend) {
        let limits = json!({"limits": {"max_concurrency": 1}});
        let (mut node, server, first) = busy(backend, "300", limits).await;
        let second = node.posted(json!({"name": "act", "id": "second"}));
        crate::support::eventually("the second call to be seen", || async {
            node.all_calls().await.into_iter().find(|call| call["call_id"] == "second")
        })
        .await;
        node.signal("TERM");
        failed(&first.await.unwrap().ok(), "SHUTTING_DOWN");
        let call = second.await.unwrap().ok();
        failed(&call, "SHUTTING_DOWN");
        assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
        assert_eq!(node.end().await.code, Some(0));
        assert_eq!(server.requests().len(), 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_node_on_postgres_adopts_waiting_calls() {
    requires_postgres!();
    let (mut node, server) = (node(Backend::Postgres, "300").await, server().await);
    node.tool("job", &server, one_slot()).await;
    let other = node.second().await;
    node.accepted(json!({"name": "job", "id": "first"})).await;
    server.received(1).await;
    let waiting = node.accepted(json!({"name": "job"})).await;
    node.signal("TERM");
    assert_eq!(node.end().await.code, Some(0));
    assert_eq!(succeeded(&other.ended(&waiting).await), "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_calls_keep_their_order_across_a_restart() {
    let (mut node, server) = (node(Backend::Sqlite, "100").await, gated("done").await);
    node.tool("job", &server, one_slot()).await;
    node.accepted(json!({"name": "job", "id": "first"})).await;
    server.received(1).await;
    let mut waiting = Vec::new();
    for (id, priority) in [("b", 0), ("c", 0), ("a", 7), ("d", -1)] {
        waiting.push(node.accepted(json!({"name": "job", "id": id, "priority": priority})).await);
    }
    node.signal("TERM");
    assert_eq!(node.end().await.code, Some(0));
    server.open();
    node.start_again().await;
    for id in waiting {
        succeeded(&node.ended(&id).await);
    }
    let order: Vec<Value> = server.requests().iter().map(|request| request.json()["call_id"].clone()).collect();
    assert_eq!(order, ["first", "a", "b", "c", "d"]);
}

on_both_databases!(
    async fn cancellation_during_the_stop_is_kept(backend: Backend) {
        let (mut node, server) = (node(backend, "60000").await, gated("done").await);
        node.tool("job", &server, one_slot()).await;
        let running = node.accepted(json!({"name": "job"})).await;
        server.received(1).await;
        let waiting = node.accepted(json!({"name": "job"})).await;
        terminate(&node).await;
        node.cancel(&waiting).await;
        server.open();
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        failed(&node.ended(&waiting).await, "CANCELLED");
        succeeded(&node.stored(&running).await);
        assert_eq!(server.requests().len(), 1);
    }
);

on_both_databases!(
    async fn waiting_call_of_a_batch_runs_after_the_next_start(backend: Backend) {
        let (mut node, server) = (node(backend, "300").await, server().await);
        node.tool("job", &server, json!({})).await;
        let calls = json!([{"name": "job", "id": "first"}, {"name": "job", "id": "second"}]);
        let body = json!({"calls": calls, "mode": "serial", "wait": "accepted"});
        let answer = node.post("/tool-calls", &body).await;
        let id = |index: usize| id_of(&answer.json["results"][index]);
        server.received(1).await;
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        failed(&node.stored(&id(0)).await, "SHUTTING_DOWN");
        assert_eq!(succeeded(&node.ended(&id(1)).await), "later");
    }
);
