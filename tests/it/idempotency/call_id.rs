//! `"dedupe": "call_id"`: the session and the caller's own id form the key.

use serde_json::{Value, json};

use super::{keyed, only_call, service, shut};
use crate::support::Backend;
use crate::support::calls::{id_of, with};
use crate::support::shapes::{names_field, succeeded};

fn call(session: Value, id: &str) -> Value {
    json!({"name": "act", "id": id, "session": session, "dedupe": "call_id"})
}

on_both_databases!(
    async fn same_id_in_the_same_session_is_the_same_call(backend: Backend) {
        let (app, server) = service(backend).await;
        let first = app.call_with(call(json!("s"), "call_0")).await;
        assert_eq!(succeeded(&first), "done");
        assert_eq!(app.call_with(call(json!("s"), "call_0")).await, first);
        let app = app.restart().await;
        assert_eq!(app.call_with(call(json!("s"), "call_0")).await, first);
        only_call(&app, &[first]).await;
        assert_eq!(server.requests().len(), 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_id_or_another_session_is_another_call() {
    let (app, server) = service(Backend::Sqlite).await;
    for (session, id) in [(json!("s"), "a"), (json!("s"), "b"), (json!("t"), "a"), (Value::Null, "a")] {
        for _ in 0..2 {
            succeeded(&app.call_with(call(session.clone(), id)).await);
        }
    }
    assert_eq!((server.requests().len(), app.all_calls().await.len()), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_and_id_are_not_confused_by_concatenation() {
    let (app, server) = service(Backend::Sqlite).await;
    for (session, id) in [("a:b", "c"), ("a", "b:c"), ("a/b", "c"), ("a", "b/c"), ("ab", "c"), ("a", "bc")] {
        succeeded(&app.call_with(call(json!(session), id)).await);
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_call_with_the_same_id_is_joined() {
    let (app, server) = shut(Backend::Sqlite).await;
    let first = app.posted(call(json!("s"), "call_0"));
    server.received(1).await;
    let prefer = [("prefer", "respond-async")];
    let glance = app.post_with("/tool-calls", &prefer, &call(json!("s"), "call_0")).await;
    assert_eq!(glance.status, 202, "{}", glance.text());
    server.open();
    assert_eq!(id_of(&first.await.unwrap().ok()), id_of(&glance.json));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_id_with_other_arguments_is_rejected() {
    let (app, server) = service(Backend::Sqlite).await;
    app.call_with(call(json!("s"), "call_0")).await;
    let other = with(call(json!("s"), "call_0"), json!({"arguments": {"a": 2}}));
    let problem = app.post("/tool-calls", &other).await.problem(422);
    assert_eq!(problem["code"], "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_batch_are_replayed() {
    let (app, server) = service(Backend::Sqlite).await;
    let calls = json!([{"name": "act", "id": "a"}, {"name": "act", "id": "b"}]);
    let body = json!({"calls": calls, "session": "s", "dedupe": "call_id"});
    let (first, second) = (app.batch(body.clone()).await, app.batch(body).await);
    assert_eq!(first.iter().map(id_of).collect::<Vec<_>>(), second.iter().map(id_of).collect::<Vec<_>>());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_id_without_dedupe_is_another_call() {
    let (app, server) = service(Backend::Sqlite).await;
    app.call_with(call(json!("s"), "call_0")).await;
    app.call_with(json!({"name": "act", "id": "call_0", "session": "s"})).await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_dedupe_is_rejected() {
    let (app, server) = service(Backend::Sqlite).await;
    for way in [json!("arguments"), json!(true), json!(["call_id"])] {
        let problem = app.post("/tool-calls", &json!({"name": "act", "id": "x", "dedupe": way})).await.problem(422);
        names_field(&problem, "dedupe");
    }
    assert_eq!(server.requests().len(), 0);
}

on_both_databases!(
    async fn dedupe_applies_next_to_an_idempotency_key(backend: Backend) {
        let (app, server) = service(backend).await;
        let first = keyed(&app, "one", &call(json!("s"), "call_0")).await.ok();
        let again = keyed(&app, "two", &call(json!("s"), "call_0")).await.ok();
        only_call(&app, &[first, again, app.call_with(call(json!("s"), "call_0")).await]).await;
        assert_eq!(server.requests().len(), 1);
    }
);

on_both_databases!(
    async fn keyed_batch_with_known_calls_is_replayed_completely(backend: Backend) {
        let (app, server) = service(backend).await;
        app.call_with(call(json!("s"), "b")).await;
        let calls = json!([{"name": "act", "id": "a"}, {"name": "act", "id": "b"}, {"name": "act", "id": "c"}]);
        let body = json!({"calls": calls, "session": "s", "dedupe": "call_id"});
        let mut answers = Vec::new();
        for _ in 0..2 {
            let answer = keyed(&app, "k", &body).await.ok();
            let results = answer["results"].as_array().unwrap_or_else(|| panic!("no batch: {answer:#}"));
            answers.push(results.iter().map(id_of).collect::<Vec<_>>());
            assert_eq!(
                results.iter().map(|call| call["call_id"].as_str()).collect::<Vec<_>>(),
                [Some("a"), Some("b"), Some("c")]
            );
        }
        assert_eq!((&answers[0], server.requests().len()), (&answers[1], 3));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn batch_of_one_is_replayed_as_a_batch_and_a_single_call_is_not() {
    let (app, _server) = service(Backend::Sqlite).await;
    let body = json!({"calls": [{"name": "act", "id": "a"}], "session": "s", "dedupe": "call_id"});
    let (first, again) = (app.post("/tool-calls", &body).await.ok(), app.post("/tool-calls", &body).await.ok());
    assert_eq!(first, again);
    assert_eq!(app.call_with(call(json!("s"), "a")).await["id"], first["results"][0]["id"]);
    let single = app.call_with(call(json!("s"), "b")).await;
    let body = json!({"calls": [{"name": "act", "id": "b"}], "session": "s", "dedupe": "call_id"});
    assert_eq!(app.post("/tool-calls", &body).await.ok()["results"][0]["id"], single["id"]);
}
