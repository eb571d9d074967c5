//! A tool is paused after repeated timeouts.

use serde_json::{Value, json};

use crate::support::calls::{assert_counts, idempotent};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, eventually};

const PAUSED: &str = "Error: Tool \"t\" is paused after 3 timeouts in a row";

/// Starts a server that responds only if the argument `answer` gives a response, and a service with a tool `t` of it.
async fn service(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, server().await);
    app.tool("t", &server, json!({"limits": {"timeout_ms": 150}})).await;
    (app, server)
}

async fn server() -> HttpTool {
    HttpTool::start("127.0.0.1", |request| match request.json()["arguments"]["answer"].as_str() {
        Some("fail") => Answer::status(500, "text/plain", "sorry"),
        Some(text) => Answer::text(text),
        None => Answer::Never,
    })
    .await
}

async fn times_out(app: &App, name: &str, times: usize) {
    for _ in 0..times {
        failed(&app.call(name, json!({})).await, "TOOL_TIMEOUT");
    }
}

/// Calls the tool with an argument that makes the server respond immediately.
async fn answers(app: &App, name: &str) -> Value {
    let limits = json!({"timeout_ms": 15_000});
    app.call_with(json!({"name": name, "arguments": {"answer": "well"}, "limits": limits})).await
}

async fn paused(app: &App, name: &str) -> Value {
    app.get(&format!("/tools/{name}")).await.ok()["paused"].clone()
}

async fn resume(app: &App, name: &str) -> u16 {
    app.post_empty(&format!("/tools/{name}/resume")).await.status
}

on_both_databases!(
    async fn three_timeouts_in_a_row_pause_a_tool(backend: Backend) {
        let (app, server) = service(backend).await;
        times_out(&app, "t", 2).await;
        assert_eq!(paused(&app, "t").await, Value::Null);
        times_out(&app, "t", 1).await;
        let call = answers(&app, "t").await;
        assert!(failed(&call, "TOOL_PAUSED").starts_with(PAUSED), "{call:#}");
        assert_eq!((&call["error"]["retryable"], &call["attempts"]), (&json!(true), &json!(0)));
        server.received(3).await;
        assert_eq!(server.requests().len(), 3);
        let expected = json!({"execution_count": 3, "failures_by_code": {"TOOL_TIMEOUT": 3}, "rejected_count": 1,
            "rejected_by_code": {"TOOL_PAUSED": 1}});
        assert_counts(&app.stats("t").await, expected);
    }
);

on_both_databases!(
    async fn paused_tool_is_shown_until_it_is_resumed(backend: Backend) {
        let (app, server) = service(backend).await;
        times_out(&app, "t", 3).await;
        assert_ne!(paused(&app, "t").await, Value::Null);
        let list = app.get("/tools").await.ok();
        let listed = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "t").unwrap();
        assert_eq!(listed["paused"], paused(&app, "t").await);
        assert!((200..300).contains(&resume(&app, "t").await));
        assert_eq!(paused(&app, "t").await, Value::Null);
        assert_eq!(succeeded(&answers(&app, "t").await), "well");
        server.received(4).await;
        assert_eq!(server.requests().len(), 4);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn resumed_tool_is_paused_after_three_more_timeouts() {
    let (app, _server) = service(Backend::Sqlite).await;
    times_out(&app, "t", 3).await;
    resume(&app, "t").await;
    times_out(&app, "t", 3).await;
    failed(&answers(&app, "t").await, "TOOL_PAUSED");
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_a_running_tool_changes_nothing_and_an_unknown_one_is_a_404() {
    let (app, _server) = service(Backend::Sqlite).await;
    assert!((200..300).contains(&resume(&app, "t").await));
    assert_eq!(succeeded(&answers(&app, "t").await), "well");
    app.post_empty("/tools/nobody/resume").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn success_resets_the_count() {
    let (app, _server) = service(Backend::Sqlite).await;
    for _ in 0..3 {
        times_out(&app, "t", 2).await;
        assert_eq!(succeeded(&answers(&app, "t").await), "well");
    }
    assert_eq!(paused(&app, "t").await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_failures_do_not_pause() {
    let (app, server) = service(Backend::Sqlite).await;
    let limits = json!({"timeout_ms": 15_000});
    for _ in 0..5 {
        let body = json!({"name": "t", "arguments": {"answer": "fail"}, "limits": limits});
        failed(&app.call_with(body).await, "TOOL_EXECUTION_ERROR");
    }
    assert_eq!((paused(&app, "t").await, server.requests().len()), (Value::Null, 5));
}

on_both_databases!(
    async fn tools_do_not_share_their_count(backend: Backend) {
        let (app, server) = service(backend).await;
        app.tool("u", &server, json!({"limits": {"timeout_ms": 150}})).await;
        times_out(&app, "t", 2).await;
        times_out(&app, "u", 2).await;
        assert_eq!(succeeded(&answers(&app, "u").await), "well");
        times_out(&app, "t", 1).await;
        failed(&answers(&app, "t").await, "TOOL_PAUSED");
        assert_eq!(succeeded(&answers(&app, "u").await), "well");
        assert_eq!(paused(&app, "u").await, Value::Null);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn paused_tool_works_again_after_its_pause() {
    let app = App::tuned(Backend::Sqlite, |config| config.pause.cooldown_ms = 50).await;
    let server = server().await;
    app.tool("t", &server, json!({"limits": {"timeout_ms": 150}})).await;
    times_out(&app, "t", 3).await;
    eventually("the rest to be over", || async {
        let call = answers(&app, "t").await;
        if call["status"] == "ERROR" {
            failed(&call, "TOOL_PAUSED");
        }
        (call["status"] == "SUCCESS").then_some(())
    })
    .await;
    assert_eq!(paused(&app, "t").await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_of_async_calls_count() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    app.tool("t", &server, json!({"async": true, "limits": {"timeout_ms": 150}})).await;
    for _ in 0..3 {
        let id = app.sent(json!({"name": "t"})).await;
        failed(&app.ended(&id).await, "TOOL_TIMEOUT");
    }
    let answer = app.post("/tool-calls", &json!({"name": "t", "wait": "result"})).await.ok();
    assert!(failed(&answer, "TOOL_PAUSED").starts_with(PAUSED));
    server.received(3).await;
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_a_timeout_too() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    app.tool("t", &server, json!({"limits": {"idle_timeout_ms": 150}, "annotations": idempotent()})).await;
    times_out(&app, "t", 3).await;
    failed(&answers(&app, "t").await, "TOOL_PAUSED");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_never_ran_does_not_change_the_count() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}});
    app.tool("t", &server, json!({"limits": {"timeout_ms": 150}, "input_schema": schema})).await;
    times_out(&app, "t", 2).await;
    failed(&app.call("t", json!({"answer": [5]})).await, "TOOL_VALIDATION_ERROR");
    times_out(&app, "t", 1).await;
    failed(&answers(&app, "t").await, "TOOL_PAUSED");
}
