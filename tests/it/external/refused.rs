//! Results and progress for calls that do not accept them.

use serde_json::json;

use super::{answer, call_external, post_progress, post_result, service};
use crate::support::client::send;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_call_accepts_no_result() {
    let app = service(Backend::Sqlite, json!({})).await;
    let nobody = "00000000-0000-7000-8000-000000000000";
    post_result(&app, nobody, &json!("x")).await.problem(404);
    post_progress(&app, nobody, &json!({"tip": "x"})).await.problem(404);
    post_result(&app, "call_abc", &json!("x")).await.client_problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_local_tool_accepts_no_result() {
    let app = App::on_sqlite().await;
    let id = app.accepted(json!({"name": "wait", "arguments": {"ms": 60_000}, "wait": 1})).await;
    app.in_phase(&id, "running").await;
    post_result(&app, &id, &json!("forged")).await.problem(409);
    assert_eq!(app.stored(&id).await["status"], "DOING");
    app.cancel(&id).await;
}

on_both_databases!(
    async fn wrong_token_is_rejected_even_without_keys(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = call_external(&app).await;
        for (path, body) in [("result", json!("forged")), ("progress", json!({"tip": "forged"}))] {
            let request = app.request(reqwest::Method::POST, &format!("/tool-calls/{id}/{path}"));
            let refused = send(request.bearer_auth("wrong").json(&body)).await;
            assert!([401, 403, 404].contains(&refused.status), "{} {}", refused.status, refused.text());
            refused.client_problem();
        }
        assert_eq!(app.stored(&id).await["tip"], serde_json::Value::Null);
        answer(&app, &id, &json!("real")).await;
        assert_eq!(succeeded(&app.ended(&id).await), "real");
    }
);
