//! Every event is counted once, under its own labels.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::calls::{idempotent, with};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

on_both_databases!(
    async fn calls_are_counted_by_tool_and_outcome_exactly(backend: Backend) {
        let app = App::start(backend).await;
        for _ in 0..3 {
            app.call("echo", json!({})).await;
        }
        failed(&app.call("calculate", json!({"expression": 7})).await, "TOOL_VALIDATION_ERROR");
        failed(&app.call("calculate", json!({"expression": "1/"})).await, "TOOL_EXECUTION_ERROR");
        let results = app.batch(json!({"calls": [{"name": "echo"}, {"name": "nope"}, {"name": "echo"}]})).await;
        assert_eq!(results.len(), 3);
        let found = app
            .counted(&[
                (r#"toolpost_calls_total{tool="echo",outcome="SUCCESS"}"#, 5.0),
                (r#"toolpost_calls_total{tool="calculate",outcome="TOOL_VALIDATION_ERROR"}"#, 1.0),
                (r#"toolpost_calls_total{tool="calculate",outcome="TOOL_EXECUTION_ERROR"}"#, 1.0),
                (r#"toolpost_calls_total{tool="unknown",outcome="TOOL_NOT_FOUND"}"#, 1.0),
                (r#"toolpost_call_duration_seconds_count{tool="echo"}"#, 5.0),
                // The call with invalid arguments never ran.
                (r#"toolpost_call_duration_seconds_count{tool="calculate"}"#, 1.0),
                ("toolpost_calls_running", 0.0),
            ])
            .await;
        assert_eq!(found.beginning("toolpost_calls_total{").len(), 4);
        let all = r#"toolpost_call_duration_seconds_bucket{tool="echo",le="+Inf"}"#;
        assert_eq!(found.get(all), Some(5.0));
        // Every call is a separate change here, and each change is in one commit.
        let changes = found.get("toolpost_journal_changes_total").unwrap();
        assert!(changes >= 8.0, "{changes}");
        assert_eq!(found.get("toolpost_journal_commit_changes_sum"), Some(changes));
        let commits = found.get("toolpost_journal_commits_total").unwrap();
        assert_eq!(found.get("toolpost_journal_commit_duration_seconds_count"), Some(commits));
        assert!((1.0..=changes).contains(&commits), "{commits}");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn retries_cached_results_and_pauses_are_counted() {
    let app = App::with_egress(Backend::Sqlite).await;
    let requests = AtomicUsize::new(0);
    let server = HttpTool::start("127.0.0.1", move |_| match requests.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Answer::status(503, "text/plain", "not now"),
        _ => Answer::text("done"),
    })
    .await;
    let retry = json!({"max_attempts": 3, "initial_backoff_ms": 1, "jitter": 0});
    let cache = json!({"ttl_ms": 3_600_000, "scope": "global"});
    app.tool("t", &server, json!({"annotations": idempotent(), "retry": retry, "cache": cache})).await;
    for _ in 0..3 {
        assert_eq!(succeeded(&app.call("t", json!({})).await), "done");
    }
    let silent = HttpTool::answering(Answer::Never).await;
    app.tool("hangs", &silent, json!({"limits": {"timeout_ms": 20}})).await;
    for _ in 0..3 {
        failed(&app.call("hangs", json!({})).await, "TOOL_TIMEOUT");
    }
    failed(&app.call("hangs", json!({})).await, "TOOL_PAUSED");
    app.counted(&[
        (r#"toolpost_call_retries_total{tool="t"}"#, 2.0),
        (r#"toolpost_cache_hits_total{tool="t"}"#, 2.0),
        (r#"toolpost_calls_total{tool="t",outcome="SUCCESS"}"#, 1.0),
        (r#"toolpost_calls_total{tool="t",outcome="CACHED"}"#, 2.0),
        (r#"toolpost_call_duration_seconds_count{tool="t"}"#, 1.0),
        (r#"toolpost_calls_total{tool="hangs",outcome="TOOL_TIMEOUT"}"#, 3.0),
        (r#"toolpost_calls_total{tool="hangs",outcome="TOOL_PAUSED"}"#, 1.0),
        ("toolpost_tools_paused", 1.0),
        ("toolpost_tool_pauses_total", 1.0),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_counted_by_event_and_outcome_and_callbacks_by_outcome() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::start("127.0.0.1", |request| match request.target.as_str() {
        "/blocks" => Answer::json(&json!({"block": true, "reason": "no"})),
        "/breaks" => Answer::status(500, "text/plain", "x"),
        "/babbles" => Answer::body("application/json", "]"),
        _ => Answer::status(204, "text/plain", ""),
    })
    .await;
    let hook = |event: &str, path: &str, tool: &str| json!({"event": event, "url": receiver.url(path), "match": {"tools": [tool]}, "timeout_ms": 10_000});
    for hook in [
        hook("before_tool_call", "/silent", "echo"),
        hook("before_tool_call", "/blocks", "wait"),
        hook("before_tool_call", "/babbles", "calculate"),
        hook("after_tool_call", "/breaks", "echo"),
        hook("tool_result_persist", "/silent", "echo"),
    ] {
        assert_eq!(app.post("/hooks", &hook).await.status, 201);
    }
    let callback = json!({"callback_url": receiver.url("/callback")});
    succeeded(&app.call_with(with(json!({"name": "echo"}), callback)).await);
    failed(&app.call("wait", json!({"ms": 1})).await, "TOOL_BLOCKED");
    succeeded(&app.call("calculate", json!({"expression": "1"})).await);
    let found = app
        .counted(&[
            (r#"toolpost_hook_calls_total{event="before_tool_call",outcome="ok"}"#, 1.0),
            (r#"toolpost_hook_calls_total{event="before_tool_call",outcome="blocked"}"#, 1.0),
            (r#"toolpost_hook_calls_total{event="before_tool_call",outcome="unreadable"}"#, 1.0),
            (r#"toolpost_hook_calls_total{event="after_tool_call",outcome="failed"}"#, 1.0),
            (r#"toolpost_hook_calls_total{event="tool_result_persist",outcome="ok"}"#, 1.0),
            (r#"toolpost_callbacks_total{outcome="delivered"}"#, 1.0),
        ])
        .await;
    let sum = |prefix: &str| found.beginning(prefix).values().sum::<f64>();
    assert_eq!((sum("toolpost_hook_calls_total{"), sum("toolpost_callbacks_total{")), (5.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_method_route_and_status() {
    let app = App::on_sqlite().await;
    for _ in 0..2 {
        app.call("echo", json!({})).await;
    }
    app.get("/tools/echo").await.ok();
    app.get("/tools/nope").await.problem(404);
    app.post_raw("/tool-calls", "{").await.problem(400);
    let found = app
        .counted(&[
            (r#"toolpost_http_requests_total{method="POST",route="/tool-calls",status="200"}"#, 2.0),
            (r#"toolpost_http_requests_total{method="POST",route="/tool-calls",status="400"}"#, 1.0),
            (r#"toolpost_http_requests_total{method="GET",route="/tools/{name}",status="200"}"#, 1.0),
            (r#"toolpost_http_requests_total{method="GET",route="/tools/{name}",status="404"}"#, 1.0),
            (r#"toolpost_http_request_duration_seconds_count{method="POST",route="/tool-calls"}"#, 3.0),
        ])
        .await;
    assert_eq!(found.get(&format!("toolpost_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_one_process_count_for_themselves() {
    let (one, other) = (App::on_sqlite().await, App::on_sqlite().await);
    one.call("echo", json!({})).await;
    one.counted(&[(r#"toolpost_calls_total{tool="echo",outcome="SUCCESS"}"#, 1.0)]).await;
    assert!(other.metrics().await.beginning("toolpost_calls_total{").is_empty());
}
