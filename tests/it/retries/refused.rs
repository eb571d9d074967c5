//! Failures that are not retried.

use serde_json::{Value, json};

use super::{answers, patient, third_time_lucky, three, unavailable};
use crate::support::calls::{idempotent, with};
use crate::support::service::rust_tools;
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Answer, App, Backend, Options};

/// Checks that the call had one attempt, which failed.
fn once(call: &Value) {
    failed(call, "TOOL_EXECUTION_ERROR");
    assert_eq!(call["attempts"], 1, "{call:#}");
}

on_both_databases!(
    async fn non_repeatable_tool_is_not_repeated(backend: Backend) {
        let server = answers(vec![unavailable()]).await;
        let app = patient(backend, &server, json!({"annotations": {}})).await;
        let call = app.call("t", json!({})).await;
        once(&call);
        assert_eq!((&call["error"]["retryable"], server.requests().len()), (&json!(true), 1));
        // The retry policy of the call does not change that.
        once(&app.call_with(json!({"name": "t", "retry": {"max_attempts": 5}})).await);
        assert_eq!((server.requests().len(), &app.stats("t").await["retry_count"]), (2, &json!(0)));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn request_that_may_have_arrived_is_not_retried() {
    for answer in [Answer::CloseEarly, Answer::CutOff] {
        let server = answers(vec![answer]).await;
        let app = patient(Backend::Sqlite, &server, json!({"annotations": {}})).await;
        once(&app.call("t", json!({})).await);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_a_non_repeatable_tool_is_final() {
    let server = answers(vec![Answer::Never]).await;
    let app = patient(Backend::Sqlite, &server, json!({"annotations": {}, "limits": {"timeout_ms": 500}})).await;
    let call = app.call("t", json!({})).await;
    failed(&call, "TOOL_TIMEOUT");
    server.received(1).await;
    assert_eq!((&call["attempts"], server.requests().len()), (&json!(1), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn response_4xx_is_not_retried() {
    for status in [400, 401, 403, 404, 409, 422] {
        let server = answers(vec![Answer::status(status, "text/plain", "no")]).await;
        let app = patient(Backend::Sqlite, &server, json!({})).await;
        once(&app.call("t", json!({})).await);
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_the_tool_is_not_retried() {
    let own = [json!({"error": "no such city"}), json!({"success": false}), json!({"status": "error", "message": "x"})];
    for answer in own.into_iter().chain([json!({"output": "no such city", "is_error": true})]) {
        let server = answers(vec![Answer::json(&answer)]).await;
        let app = patient(Backend::Sqlite, &server, json!({})).await;
        once(&app.call("t", json!({})).await);
        assert_eq!(server.requests().len(), 1, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_a_rust_tool_is_not_retried() {
    let app = App::start_with(Backend::Sqlite, Options { extra: rust_tools(), ..Options::default() }).await;
    let executor = json!({"type": "builtin", "name": "fails"});
    app.register(json!({"name": "t", "annotations": idempotent(), "retry": three(), "executor": executor})).await;
    once(&app.call("t", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_result_is_not_retried() {
    let server = answers(vec![Answer::json(&json!({"n": "x"}))]).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let app = patient(Backend::Sqlite, &server, json!({"output_schema": schema, "output_check": "strict"})).await;
    failed(&app.call("t", json!({})).await, "RESULT_INVALID");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn default_is_one_attempt() {
    let server = third_time_lucky().await;
    let app = App::with_egress(Backend::Sqlite).await;
    app.tool("t", &server, json!({"annotations": idempotent()})).await;
    once(&app.call("t", json!({})).await);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_can_change_the_number_of_attempts() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (lucky, down) = (third_time_lucky().await, answers(vec![unavailable()]).await);
    app.tool("one", &lucky, json!({"annotations": idempotent()})).await;
    app.tool("many", &down, json!({"annotations": idempotent(), "retry": three()})).await;
    let call = app.call_with(json!({"name": "one", "retry": three()})).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(3)));
    once(&app.call_with(json!({"name": "many", "retry": {"max_attempts": 1}})).await);
    let calls = json!([{"name": "many", "retry": {"max_attempts": 2}}, {"name": "many"}]);
    let results = app.batch(json!({"calls": calls, "retry": {"max_attempts": 1}})).await;
    assert_eq!((&results[0]["attempts"], &results[1]["attempts"]), (&json!(2), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_retry_field_of_a_call_applies_separately() {
    let server = third_time_lucky().await;
    // With the backoff of the tool, this would take an hour.
    let slow = json!({"retry": {"max_attempts": 3, "initial_backoff_ms": 3_600_000, "max_backoff_ms": 3_600_000}});
    let app = patient(Backend::Sqlite, &server, slow).await;
    let call = app.call_with(json!({"name": "t", "retry": {"initial_backoff_ms": 1, "max_backoff_ms": 1}})).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_retries_are_rejected_with_a_pointer() {
    let server = answers(vec![Answer::text("done")]).await;
    let app = patient(Backend::Sqlite, &server, json!({})).await;
    for (field, value) in [
        ("max_attempts", json!(0)),
        ("max_attempts", json!("3")),
        ("initial_backoff_ms", json!(-1)),
        ("backoff_multiplier", json!(0.5)),
        ("jitter", json!(1.5)),
        ("max_atempts", json!(3)),
    ] {
        let retry = json!({field: value});
        let call = app.post("/tool-calls", &json!({"name": "t", "retry": retry})).await.problem(422);
        points_at(&call, &format!("/retry/{field}"));
        let definition = with(crate::support::calls::tool("u", &server, json!({})), json!({"retry": retry}));
        points_at(&app.post("/tools", &definition).await.problem(422), &format!("/retry/{field}"));
    }
    assert_eq!(server.requests().len(), 0);
}
