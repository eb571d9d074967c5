//! Every kind of request about a call or a session at a node that does not run it.

use serde_json::json;

use super::{aborted, ended, two, two_with};
use crate::support::calls::{gated, id_of};
use crate::support::shapes::succeeded;
use crate::support::{Answer, HttpTool, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_and_running_calls_are_cancelled_from_another_node() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    let (one, other) = two_with(&server, "job", json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    let running = one.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    let waiting = one.accepted(json!({"name": "job"})).await;
    for id in [&waiting, &running] {
        other.cancel(id).await;
        // Any node waits for the end and returns the same call.
        let call = ended(&other, id).await;
        aborted(&call);
        assert_eq!(ended(&one, id).await, call);
    }
    server.closed().await;
    // Cancelling again changes nothing, at any node.
    assert_eq!(other.cancel(&running).await.json["error"]["code"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_and_the_result_reach_a_call_of_another_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let ask = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    one.register(ask).await;
    let waiting = one.posted(json!({"name": "ask"}));
    let id = one.only("ask").await;
    one.in_phase(&id, "external").await;
    let mut events = one.events(&format!("/tool-calls/{id}/events")).await;
    for step in 1..=3 {
        let report = json!({"tip": format!("step {step}"), "details": {"step": step}});
        assert_eq!(other.post(&format!("/tool-calls/{id}/progress"), &report).await.status, 202);
    }
    for step in 1..=3 {
        events.until(|event| event.event == "progress" && event.data["details"]["step"] == step).await;
    }
    let first = other.post(&format!("/tool-calls/{id}/result"), &json!("done")).await.ok();
    assert_eq!(first["ignored"], false);
    let late = one.post(&format!("/tool-calls/{id}/result"), &json!("late")).await.ok();
    assert_eq!(late["ignored"], true);
    assert_eq!(succeeded(&waiting.await.unwrap().ok()), "done");
    let report = other.post(&format!("/tool-calls/{id}/progress"), &json!({"tip": "late"})).await;
    assert_eq!(report.problem(409)["code"], "CALL_ENDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_session_ends_its_calls_on_every_node() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    let (one, other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    let of_session = one.posted(json!({"name": "look", "session": "s"}));
    server.received(1).await;
    let of_another = one.posted(json!({"name": "look", "session": "t"}));
    server.received(2).await;
    other.post_empty("/sessions/s/abort").await;
    aborted(&of_session.await.unwrap().ok());
    let deleted = other.delete("/sessions/t").await;
    assert_eq!(deleted.status, 204);
    aborted(&of_another.await.unwrap().ok());
    for node in [&one, &other] {
        node.get("/sessions/t").await.problem(404);
    }
}

/// A call that is not stored yet is known only to its node.
#[tokio::test(flavor = "multi_thread")]
async fn notice_of_an_aborted_session_ends_unstored_calls() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    let (one, _other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    let (aborted_one, unharmed) = ("s", "t");
    let running = one.posted(json!({"name": "look", "session": aborted_one}));
    server.received(1).await;
    let kept = one.posted(json!({"name": "look", "session": unharmed}));
    server.received(2).await;
    let notice = json!({"kind": "sessions_aborted", "tenant": "default", "sessions": [aborted_one]});
    let id = uuid::Uuid::from_u128(1);
    assert_eq!(one.store().post_notice(id, "a third node", &notice.to_string()).await.unwrap(), 2);
    aborted(&running.await.unwrap().ok());
    eventually("the notice to be processed", async || (!one.store().awaits_notice(id).await.unwrap()).then_some(()))
        .await;
    assert!(!kept.is_finished());
    kept.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn notice_unread_by_a_frozen_node_is_withdrawn() {
    requires_postgres!();
    let (one, _other) = two().await;
    one.call_with(json!({"name": "echo", "session": "s"})).await;
    one.store().beat("frozen", std::time::Duration::from_secs(600)).await.unwrap();
    assert_eq!(one.post_empty("/sessions/s/abort").await.status / 100, 2);
    assert!(one.store().notices("frozen").await.unwrap().is_empty(), "it would end later calls of the session");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_aborted_elsewhere_accepts_new_calls_immediately() {
    requires_postgres!();
    let (one, other) = two().await;
    for _ in 0..3 {
        one.call_with(json!({"name": "echo", "session": "s"})).await;
        other.post_empty("/sessions/s/abort").await;
        let call = one.call_with(json!({"name": "wait", "arguments": {"ms": 600}, "session": "s"})).await;
        assert_eq!(call["status"], "SUCCESS", "the abort is over when it is answered: {call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_at_another_node_joins_the_running_call() {
    requires_postgres!();
    let server = gated("done").await;
    let (one, other) = two_with(&server, "act", json!({})).await;
    let body = json!({"calls": [{"name": "act", "arguments": {"n": 1}}, {"name": "echo"}]});
    let keyed = |client: &crate::support::Client| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move { client.post_with("/tool-calls", &[("idempotency-key", "k")], &body).await })
    };
    let first = keyed(&one);
    server.received(1).await;
    let second = keyed(&other);
    let headers = [("idempotency-key", "k"), ("prefer", "respond-async")];
    let glance = other.post_with("/tool-calls", &headers, &body).await;
    assert_eq!(glance.status, 202, "{}", glance.text());
    let streamed = {
        let (client, body) = (other.clone(), body.clone());
        let headers = [("idempotency-key", "k"), ("accept", "text/event-stream")];
        tokio::spawn(async move { client.post_with("/tool-calls", &headers, &body).await })
    };
    server.open();
    let (first, second) = (first.await.unwrap().ok(), second.await.unwrap().ok());
    assert_eq!(first, second);
    assert_eq!(glance.json["batch_id"], first["batch_id"]);
    let streamed = streamed.await.unwrap();
    let id = id_of(&first["results"][0]);
    assert!(streamed.text().contains("event: batch") && streamed.text().contains(&id), "{}", streamed.text());
    // The first request was answered by a node whose statistics may be folded later.
    eventually("the count", async || (other.stats("act").await["execution_count"] == 1).then_some(())).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_of_another_node_is_found_and_delivered_once() {
    requires_postgres!();
    let (server, callback) = (gated("done").await, HttpTool::answering(Answer::status(204, "text/plain", "")).await);
    let (one, other) = two_with(&server, "job", json!({"async": true})).await;
    let body = json!({"calls": [{"name": "job"}, {"name": "job"}], "callback_url": callback.url("/ended")});
    let accepted = one.post("/tool-calls", &body).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let batch = accepted.json["batch_id"].as_str().unwrap().to_owned();
    let found = other.get(&format!("/tool-calls?batch_id={batch}")).await.ok();
    assert_eq!(found["tool_calls"].as_array().unwrap().len(), 2);
    server.open();
    for call in accepted.json["results"].as_array().unwrap() {
        assert_eq!(succeeded(&ended(&other, &id_of(call)).await), "done");
    }
    callback.received(2).await;
    for call in accepted.json["results"].as_array().unwrap() {
        let is_delivered = async || {
            let state = other.stored(&id_of(call)).await["metadata"]["callback"]["state"].clone();
            (state == "delivered").then_some(())
        };
        eventually("the callback", is_delivered).await;
    }
    assert_eq!(callback.requests().len(), 2);
}
