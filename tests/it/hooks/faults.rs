//! Hooks that fail, hang or send invalid responses.

use serde_json::{Value, json};

use super::history;
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::count;
use crate::support::{Answer, App, Backend, HttpTool, ReceivedRequest};

const BLOCKED: &str = "Error: Tool call blocked because before_tool_call hook failed";

/// Starts a receiver with a path for each kind of failure.
async fn failing() -> HttpTool {
    HttpTool::start("127.0.0.1", |request: &ReceivedRequest| match request.target.as_str() {
        "/hangs" => Answer::Never,
        "/stalls" => Answer::Stall,
        "/breaks" => Answer::status(500, "text/plain", "secret"),
        "/redirects" => Answer::redirect(302, "/elsewhere"),
        "/cuts" => Answer::CutOff,
        "/floods" => Answer::Stream(2 * 1024 * 1024),
        "/talks" => Answer::text("secret nonsense"),
        _ => Answer::json(&json!({"arguement": {"a": "secret"}})),
    })
    .await
}

const WAYS: [(&str, &str); 8] = [
    ("/hangs", "timeout"),
    ("/stalls", "timeout"),
    ("/breaks", "failed"),
    ("/redirects", "failed"),
    ("/cuts", "unreadable"),
    ("/floods", "unreadable"),
    ("/talks", "unreadable"),
    ("/misspells", "unreadable"),
];

fn timeout_of(path: &str) -> u64 {
    if ["/hangs", "/stalls"].contains(&path) { 50 } else { 20_000 }
}

on_both_databases!(
    async fn failing_hook_with_an_open_policy_is_reported_only(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = failing().await;
        for (path, kind) in WAYS {
            let hook = app.hook("before_tool_call", &receiver, path, json!({"timeout_ms": timeout_of(path)})).await;
            let mut live = app.call_streamed(&json!({"name": "echo", "arguments": {"a": 1}})).await;
            let events = live.until(|event| event.event == "batch").await;
            let errors: Vec<_> = events.iter().filter(|event| event.event == "hook_error").collect();
            assert_eq!(errors.len(), 1, "{path}: {events:#?}");
            let data = &errors[0].data;
            assert_eq!((&data["hook"], &data["kind"]), (&hook.as_str().into(), &kind.into()), "{path}");
            assert_eq!(data["event"], "before_tool_call");
            assert!(!data["reason"].as_str().unwrap().contains("secret"), "{data}");
            let results = &events.last().unwrap().data["results"];
            assert_eq!(succeeded(&results[0]), r#"{"a":1}"#, "{path}");
            // The stored events are equal to the live ones, each with its own sequence number.
            let read_back = history(&app, &results[0]["id"]).await;
            assert_eq!(read_back, events[..events.len() - 1], "{path}");
            let numbers: Vec<u64> = read_back.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (1..=read_back.len() as u64).collect::<Vec<_>>());
            assert_eq!(app.delete(&format!("/hooks/{hook}")).await.status, 204);
        }
    }
);

on_both_databases!(
    async fn failing_hook_with_a_closed_policy_ends_the_call(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = failing().await;
        for (path, _) in WAYS {
            let more = json!({"timeout_ms": timeout_of(path), "failure_policy": "closed"});
            let hook = app.hook("before_tool_call", &receiver, path, more).await;
            let call = app.call("echo", json!({})).await;
            assert_eq!(failed(&call, "HOOK_FAILED"), BLOCKED, "{path}");
            assert_eq!(call["started_at"], Value::Null);
            assert_eq!(count(&history(&app, &call["id"]).await, "hook_error"), 1);
            assert_eq!(app.delete(&format!("/hooks/{hook}")).await.status, 204);
        }
        assert_eq!(app.stats("echo").await["rejected_by_code"], json!({"HOOK_FAILED": WAYS.len()}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_address_is_never_contacted() {
    let app = App::on_sqlite().await;
    let receiver = failing().await;
    app.hook("before_tool_call", &receiver, "/breaks", json!({"failure_policy": "closed"})).await;
    let call = app.call("echo", json!({})).await;
    failed(&call, "HOOK_FAILED");
    let events = history(&app, &call["id"]).await;
    let error = events.iter().find(|event| event.event == "hook_error").unwrap();
    assert!(error.data["reason"].as_str().unwrap().contains("not allowed"), "{}", error.data);
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_hook_does_not_skip_the_next_one() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (receiver, next) = (failing().await, super::saying(json!({"arguments": {"b": 2}})).await);
    app.hook("before_tool_call", &receiver, "/breaks", json!({"priority": 1})).await;
    app.hook("before_tool_call", &next, "/", json!({})).await;
    assert_eq!(succeeded(&app.call("echo", json!({"a": 1})).await), r#"{"a":1,"b":2}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_invocations_and_failures_are_counted() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = failing().await;
    let hook = json!({"event": "before_tool_call", "url": server.url("/breaks")});
    assert_eq!(app.post("/hooks", &hook).await.status, 201);
    app.call("echo", json!({})).await;
    app.call("echo", json!({})).await;
    let counts = app.get("/stats").await.ok()["hooks"].clone();
    assert_eq!(counts, json!({"asked_count": 2, "failed_count": 2, "blocked_count": 0, "dropped_count": 0}));
    let listed = app.get("/hooks").await.ok()["hooks"][0].clone();
    assert_eq!((&listed["asked_count"], &listed["failed_count"]), (&json!(2), &json!(2)));
}
