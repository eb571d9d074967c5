//! Requests with the same key and body: they get the first outcome, and the tool runs once.

use serde_json::{Value, json};

use super::{act, keyed, only_call, service};
use crate::support::calls::{assert_counts, id_of};
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Node};

on_both_databases!(
    async fn same_request_has_the_same_outcome_and_runs_once(backend: Backend) {
        let (app, server) = service(backend).await;
        let first = keyed(&app, "key-1", &act()).await.ok();
        assert_eq!(succeeded(&first), "done");
        for _ in 0..3 {
            assert_eq!(keyed(&app, "key-1", &act()).await.ok(), first);
        }
        only_call(&app, &[first]).await;
        assert_eq!(server.requests().len(), 1);
        assert_counts(&app.stats("act").await, json!({"execution_count": 1, "success_count": 1}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_other_key_is_another_call() {
    let (app, server) = service(Backend::Sqlite).await;
    keyed(&app, "key-1", &act()).await.ok();
    keyed(&app, "key-2", &act()).await.ok();
    keyed(&app, "KEY-1", &act()).await.ok();
    app.call_with(act()).await;
    app.call_with(act()).await;
    assert_eq!((server.requests().len(), app.all_calls().await.len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn same_json_in_other_whitespace_is_the_same_body() {
    let (app, server) = service(Backend::Sqlite).await;
    let mut calls = Vec::new();
    for body in [
        r#"{"name":"act","arguments":{"a":1}}"#,
        "  {\n\t\"name\" : \"act\" ,\r\n \"arguments\": { \"a\" :1 } }\n",
        r#"{"name":"\u0061ct","arguments":{"a":1}}"#,
    ] {
        let request = app.request(reqwest::Method::POST, "/tool-calls").header("content-type", "application/json");
        calls.push(send(request.header("idempotency-key", "k").body(body)).await.ok());
    }
    only_call(&app, &calls).await;
    assert_eq!(server.requests().len(), 1);
}

on_both_databases!(
    async fn batch_is_one_request(backend: Backend) {
        let (app, server) = service(backend).await;
        let body = json!({"calls": [{"name": "act", "id": "a"}, {"name": "nobody"}, {"name": "act", "id": "b"}]});
        let first = keyed(&app, "key-1", &body).await.ok();
        assert_eq!(keyed(&app, "key-1", &body).await.ok(), first);
        assert_eq!((server.requests().len(), app.all_calls().await.len()), (2, 3));
    }
);

on_both_databases!(
    async fn failure_is_replayed(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = HttpTool::answering(Answer::status(500, "text/plain", "sorry")).await;
        app.http_tool("act", &server).await;
        app.echo_with("strict", json!({"type": "object", "required": ["n"]})).await;
        let cases =
            [("act", "TOOL_EXECUTION_ERROR"), ("strict", "TOOL_VALIDATION_ERROR"), ("nobody", "TOOL_NOT_FOUND")];
        for (name, code) in cases {
            let first = keyed(&app, name, &json!({"name": name})).await.ok();
            failed(&first, code);
            assert_eq!(keyed(&app, name, &json!({"name": name})).await.ok(), first);
        }
        assert_eq!((server.requests().len(), app.all_calls().await.len()), (1, 3));
        assert_counts(&app.stats("strict").await, json!({"rejected_count": 1}));
    }
);

on_both_databases!(
    async fn key_survives_a_restart(backend: Backend) {
        let (app, server) = service(backend).await;
        let first = keyed(&app, "key-1", &act()).await.ok();
        let app = app.restart().await;
        assert_eq!(keyed(&app, "key-1", &act()).await.ok(), first);
        keyed(&app, "key-1", &json!({"name": "act", "arguments": {"a": 2}})).await.problem(422);
        only_call(&app, &[first]).await;
        assert_eq!(server.requests().len(), 1);
    }
);

on_both_databases!(
    async fn key_survives_a_crash_with_the_outcome_of_its_call(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let server = crate::support::calls::gated("done").await;
        node.http_tool("act", &server).await;
        let body = json!({"name": "act", "wait": "accepted"});
        let first = keyed(&node, "key-1", &body).await;
        assert_eq!(first.status, 202);
        server.received(1).await;
        node.kill().await;
        server.open();
        node.start_again().await;
        let again = keyed(&node, "key-1", &body).await;
        assert_eq!(id_of(&again.json), id_of(&first.json));
        failed(&node.ended(&id_of(&first.json)).await, "OUTCOME_UNKNOWN");
        assert_eq!((server.requests().len(), node.all_calls().await.len()), (1, 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_one_database_share_their_keys() {
    requires_postgres!();
    let (app, server) = service(Backend::Postgres).await;
    let other = app.second().await;
    let first = keyed(&app, "key-1", &act()).await.ok();
    assert_eq!(keyed(&other, "key-1", &act()).await.ok(), first);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn id_of_a_model_is_no_key() {
    let (app, server) = service(Backend::Sqlite).await;
    let body = json!({"name": "act", "id": "call_0", "session": "s"});
    let (first, second) = (app.call_with(body.clone()).await, app.call_with(body).await);
    assert_ne!(first["id"], second["id"]);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_requested_as_events_is_the_same_call() {
    let (app, server) = service(Backend::Sqlite).await;
    let first = keyed(&app, "k", &act()).await.ok();
    let headers = [("idempotency-key", "k"), ("accept", "text/event-stream")];
    let stream = app.post_with("/tool-calls", &headers, &act()).await;
    assert_eq!((stream.status, &stream.json), (200, &Value::Null));
    let text = stream.text();
    assert!(text.contains("event: batch") && text.contains(&id_of(&first)), "{text}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_does_not_create_its_session_again() {
    let (app, server) = service(Backend::Sqlite).await;
    let body = json!({"name": "act", "session": "s"});
    let first = keyed(&app, "k", &body).await.ok();
    assert_eq!(app.delete("/sessions/s").await.status, 204);
    assert_eq!(keyed(&app, "k", &body).await.ok(), first);
    app.get("/sessions/s").await.problem(404);
    assert_eq!(server.requests().len(), 1);
}
