//! After-hooks: they observe ended calls, and callers do not wait for them.

use serde_json::{Value, json};

use super::{saying, silent};
use crate::support::service::rust_tools;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Options, ReceivedRequest, bounded};

const AFTER: &str = "after_tool_call";

on_both_databases!(
    async fn ends_are_reported_without_delay(backend: Backend) {
        let options = Options { egress_allow: vec!["127.0.0.1".into()], extra: rust_tools(), ..Options::default() };
        let app = App::start_with(backend, options).await;
        let receiver = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("whatever it says")))).await;
        for path in ["/one", "/two"] {
            app.hook(AFTER, &receiver, path, json!({"timeout_ms": 60_000})).await;
        }
        // Each call is answered and on disk before any hook has answered.
        let good = app.call("echo", json!({"a": 1})).await;
        let bad = app.call("fails", json!({})).await;
        succeeded(&good);
        failed(&bad, "TOOL_EXECUTION_ERROR");
        for call in [&good, &bad] {
            assert_eq!(app.stored(call["id"].as_str().unwrap()).await, *call);
        }
        // Both hooks receive both calls at once.
        receiver.received(4).await;
        let bodies: Vec<Value> = receiver.requests().iter().map(ReceivedRequest::json).collect();
        for call in [good, bad] {
            let about: Vec<&Value> = bodies.iter().filter(|body| body["call"]["id"] == call["id"]).collect();
            assert_eq!(about.len(), 2);
            for body in about {
                assert_eq!(body["result"]["output"], call["output"]);
                assert_eq!(body["result"]["is_error"], call["is_error"]);
                assert_eq!(body["result"]["error"], call["error"]);
                assert_eq!(body["duration_ms"], call["duration_ms"]);
            }
        }
        receiver.open();
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn after_hooks_see_blocked_calls_and_changed_arguments() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (changing, receiver) = (saying(json!({"arguments": {"b": 2}})).await, silent().await);
    app.hook("before_tool_call", &changing, "/", json!({"priority": 1})).await;
    app.hook(AFTER, &receiver, "/", json!({})).await;
    app.call("echo", json!({"a": 1})).await;
    receiver.received(1).await;
    assert_eq!(receiver.request().json()["call"]["arguments"], json!({"a": 1, "b": 2}));
    let blocking = saying(json!({"block": true})).await;
    app.hook("before_tool_call", &blocking, "/", json!({})).await;
    app.call("echo", json!({"a": 1})).await;
    receiver.received(2).await;
    let body = receiver.requests()[1].json();
    assert_eq!((&body["result"]["error"]["code"], &body["duration_ms"]), (&"TOOL_BLOCKED".into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_hooks_see_the_original_result() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (persist, receiver) = (saying(json!({"output": "slim"})).await, silent().await);
    app.hook("tool_result_persist", &persist, "/", json!({})).await;
    app.hook(AFTER, &receiver, "/", json!({})).await;
    app.call("echo", json!({"a": 1})).await;
    receiver.received(1).await;
    assert_eq!(receiver.request().json()["result"]["output"], r#"{"a":1}"#);
}

on_both_databases!(
    async fn after_hooks_finish_before_the_stop(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("ok")))).await;
        app.hook(AFTER, &receiver, "/told", json!({"timeout_ms": 60_000})).await;
        app.call("echo", json!({})).await;
        receiver.received(1).await;
        let mut stopping = std::pin::pin!(app.restart());
        assert!(futures_util::poll!(&mut stopping).is_pending());
        receiver.open();
        let app = bounded("the restart", stopping).await;
        assert_eq!(receiver.log(), ["start /told", "end /told"]);
        succeeded(&app.call("echo", json!({})).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn failing_after_hook_does_not_change_the_call() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::status(500, "text/plain", "")).await;
    app.hook(AFTER, &receiver, "/", json!({"failure_policy": "closed"})).await;
    let call = app.call("echo", json!({})).await;
    receiver.received(1).await;
    assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
    assert_eq!(super::history(&app, &call["id"]).await.len(), 5);
}
