//! Requests with the same key and a different body: they are rejected.

use serde_json::{Value, json};

use super::{act, keyed, only_call, service, shut};
use crate::support::Backend;
use crate::support::calls::id_of;
use crate::support::shapes::succeeded;

fn others() -> [Value; 5] {
    [
        json!({"name": "act", "arguments": {"a": 2}}),
        json!({"name": "echo", "arguments": {"a": 1}}),
        json!({"name": "act", "arguments": {"a": 1}, "id": "x"}),
        json!({"name": "act", "arguments": {"a": 1}, "limits": {"timeout_ms": 9000}}),
        json!({"calls": [act()]}),
    ]
}

on_both_databases!(
    async fn another_body_is_rejected_and_the_first_result_stays(backend: Backend) {
        let (app, server) = service(backend).await;
        let first = keyed(&app, "key-1", &act()).await.ok();
        for body in others() {
            let problem = keyed(&app, "key-1", &body).await.problem(422);
            assert_eq!(problem["code"], "IDEMPOTENCY_KEY_REUSED", "{body}");
        }
        assert_eq!(keyed(&app, "key-1", &act()).await.ok(), first);
        only_call(&app, &[first]).await;
        assert_eq!(server.requests().len(), 1);
    }
);

on_both_databases!(
    async fn another_body_is_rejected_while_the_first_runs(backend: Backend) {
        let (app, server) = shut(backend).await;
        let headers = [("idempotency-key", "key-1"), ("prefer", "respond-async")];
        let first = app.post_with("/tool-calls", &headers, &act()).await;
        assert_eq!(first.status, 202);
        for body in others() {
            let problem = keyed(&app, "key-1", &body).await.problem(422);
            assert_eq!(problem["code"], "IDEMPOTENCY_KEY_REUSED");
        }
        server.open();
        succeeded(&app.ended(&id_of(&first.json)).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_request_does_not_use_up_its_key() {
    let (app, server) = service(Backend::Sqlite).await;
    let wrong = keyed(&app, "k", &json!({"name": "act", "argumnts": {}})).await.problem(422);
    assert_ne!(wrong["code"], "IDEMPOTENCY_KEY_REUSED");
    succeeded(&keyed(&app, "k", &act()).await.ok());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_key_is_rejected_or_ignored_but_never_shared() {
    let (app, server) = service(Backend::Sqlite).await;
    let long = "k".repeat(10_000);
    for key in ["", long.as_str()] {
        for a in [1, 2] {
            let answer = keyed(&app, key, &json!({"name": "act", "arguments": {"a": a}})).await;
            assert!(answer.status == 200 || (400..500).contains(&answer.status), "{}", answer.text());
            assert_ne!(answer.json["code"], "IDEMPOTENCY_KEY_REUSED");
        }
    }
    assert_eq!(app.all_calls().await.len(), server.requests().len());
}
