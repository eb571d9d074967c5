//! Ends of such calls: with the last chunk, without it, or before it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ended, open, patch, piece};
use crate::support::client::send;
use crate::support::{App, Backend, Options};

#[tokio::test(flavor = "multi_thread")]
async fn last_chunk_can_be_sent_with_the_end() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "{}").await;
    let request = app.request(Method::PATCH, &format!("/tool-calls/{id}/arguments")).header("prefer", "wait=30");
    let answer = send(request.json(&json!({"final": true}))).await;
    assert_eq!((answer.status, &answer.json["status"]), (200, &json!("SUCCESS")));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_after_the_end_is_rejected() {
    let app = App::on_sqlite().await;
    let id = open(&app, "wait", "{\"ms\":").await;
    piece(&app, &id, json!({"delta": "60000}", "final": true})).await;
    for body in [json!({"delta": "x"}), json!({"final": true})] {
        let late = patch(&app, &id, &body).await;
        assert_eq!((late.status, &late.json["code"]), (409, &json!("ARGUMENTS_COMPLETE")), "{}", late.json);
    }
    app.post(&format!("/tool-calls/{id}/cancel"), &json!({})).await;
    assert_eq!(ended(&app, &id).await["error"]["code"], "CANCELLED");
    assert_eq!(patch(&app, &id, &json!({"delta": "x"})).await.status, 409);
    let plain = app.call("echo", json!({})).await;
    let late = patch(&app, plain["id"].as_str().unwrap(), &json!({"delta": "x"})).await;
    assert_eq!(late.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_end_it_as_they_end_any_call() {
    let app = App::on_sqlite().await;
    for (text, code) in [
        ("{\"ms\":\"soon\"}", "TOOL_VALIDATION_ERROR"),
        ("{\"ms\":1", "ARGUMENTS_MALFORMED"),
        ("[]", "TOOL_VALIDATION_ERROR"),
    ] {
        let id = open(&app, "wait", "").await;
        piece(&app, &id, json!({"delta": text, "final": true})).await;
        let call = ended(&app, &id).await;
        assert_eq!(call["error"]["code"], code, "{text}");
    }
    let id = open(&app, "nobody", "{").await;
    piece(&app, &id, json!({"delta": "}", "final": true})).await;
    assert_eq!(ended(&app, &id).await["error"]["code"], "TOOL_NOT_FOUND");
    let id = open(&app, "echo", "").await;
    piece(&app, &id, json!({"final": true})).await;
    assert_eq!(ended(&app, &id).await["structured"], json!({}), "nothing is no arguments");
}

on_both_databases!(
    async fn silence_ends_it_as_truncated_and_nothing_runs(backend: Backend) {
        let options = Options { configure: Some(|config| config.streams.silence_ms = 300), ..Options::default() };
        let app = App::start_with(backend, options).await;
        let id = open(&app, "echo", "{\"a\":1}").await;
        let call = ended(&app, &id).await;
        assert_truncated(&call);
        assert_eq!((&call["arguments"], &call["effective_arguments"]), (&json!("{\"a\":1}"), &Value::Null));
        let stats = app.get("/tools/echo/stats").await.ok();
        assert_eq!(
            (&stats["execution_count"], &stats["rejected_by_code"]["ARGUMENTS_TRUNCATED"]),
            (&json!(0), &json!(1))
        );
        assert_eq!(patch(&app, &id, &json!({"final": true})).await.status, 409);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_can_be_cancelled_while_its_arguments_arrive() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "{").await;
    app.post(&format!("/tool-calls/{id}/cancel"), &json!({})).await;
    assert_eq!(ended(&app, &id).await["error"]["code"], "CANCELLED");
    assert_eq!(patch(&app, &id, &json!({"delta": "}"})).await.status, 409);
}

pub(super) fn assert_truncated(call: &Value) {
    assert_eq!(call["error"]["code"], "ARGUMENTS_TRUNCATED", "{call}");
    let name = call["name"].as_str().unwrap();
    let beginning = format!("Error: Tool call \"{name}\" was not executed: the response hit the output token limit");
    assert!(call["output"].as_str().unwrap().starts_with(&beginning), "{}", call["output"]);
}
