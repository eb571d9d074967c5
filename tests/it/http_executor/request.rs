//! The request that a tool receives by default.

use reqwest::Method;
use serde_json::json;

use crate::support::client::send;
use crate::support::shapes::{HARD_TEXT, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

async fn app_and_server() -> (App, HttpTool) {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::text("ok")).await);
    app.http_tool("t", &server).await;
    (app, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_posted_to_the_tool() {
    let (app, server) = app_and_server().await;
    let call = app.call_with(json!({"name": "t", "arguments": {"a": HARD_TEXT}, "id": "call_1"})).await;
    assert_eq!(succeeded(&call), "ok");
    let request = server.request();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/run"));
    assert!(request.header("content-type").starts_with("application/json"));
    let body = request.json();
    assert_eq!((&body["id"], &body["call_id"]), (&call["id"], &json!("call_1")));
    assert_eq!((&body["name"], &body["arguments"]), (&json!("t"), &json!({"a": HARD_TEXT})));
    assert_eq!(body["attempt"], 1);
    assert!(body["deadline_ms"].is_u64(), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_gets_urls_and_token_for_reports() {
    let (app, server) = app_and_server().await;
    let (call, other) = (app.call("t", json!({})).await, app.call("t", json!({})).await);
    let bodies: Vec<_> = server.requests().iter().map(|request| request.json()).collect();
    for (call, body) in [(&call, &bodies[0]), (&other, &bodies[1])] {
        let at = |what: &str| app.url(&format!("/tool-calls/{}/{what}", call["id"].as_str().unwrap()));
        assert_eq!((&body["progress_url"], &body["result_url"]), (&json!(at("progress")), &json!(at("result"))));
    }
    let token = bodies[0]["token"].as_str().unwrap();
    assert!(token.len() >= 32 && bodies[1]["token"] != token, "{token}");
    assert!(
        !call.to_string().contains(token)
            && !app.stored(call["id"].as_str().unwrap()).await.to_string().contains(token)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_receives_the_effective_arguments() {
    let (app, server) = app_and_server().await;
    let properties = json!({"n": {"type": "integer"}, "unit": {"type": "string", "default": "C"}});
    app.register(json!({
        "name": "typed", "description": "", "input_schema": {"type": "object", "properties": properties},
        "executor": {"type": "http", "url": server.url("/typed")},
    }))
    .await;
    succeeded(&app.call("typed", json!({"n": "5"})).await);
    assert_eq!(server.request().json()["arguments"], json!({"n": 5, "unit": "C"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_receives_an_idempotency_key() {
    let (app, server) = app_and_server().await;
    app.call("t", json!({})).await;
    app.call("t", json!({})).await;
    let keys: Vec<String> = server.requests().iter().map(|r| r.header("idempotency-key").to_owned()).collect();
    assert!(keys.iter().all(|key| !key.is_empty()));
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_receives_the_trace_of_its_caller() {
    let (app, server) = app_and_server().await;
    let trace_id = "0af7651916cd43dd8448eb211c80319c";
    let request =
        app.request(Method::POST, "/tool-calls").header("traceparent", format!("00-{trace_id}-b7ad6b7169203331-01"));
    send(request.json(&json!({"name": "t"}))).await.ok();
    let passed_on = server.request().header("traceparent").to_owned();
    assert_eq!(passed_on.split('-').nth(1), Some(trace_id), "{passed_on}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_not_sent() {
    let (app, server) = app_and_server().await;
    app.call("t", json!([1])).await;
    app.call("t", json!("{")).await;
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_is_requested_once_for_each_call() {
    let (app, server) = app_and_server().await;
    let calls: Vec<_> = (0..30).map(|n| json!({"name": "t", "arguments": {"n": n}})).collect();
    app.batch(json!({"calls": calls, "mode": "parallel"})).await;
    let mut numbers: Vec<u64> =
        server.requests().iter().map(|request| request.json()["arguments"]["n"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
}
