//! The conditions of a cache hit.

use serde_json::{Value, json};

use super::{app_with, call, call_with, global, numbered};
use crate::support::calls::assert_counts;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

on_both_databases!(
    async fn equal_call_gets_the_cached_result_and_nothing_runs(backend: Backend) {
        let server = numbered().await;
        let app = app_with(backend, &server).await;
        let first = call(&app, json!({})).await;
        assert_eq!((succeeded(&first), &first["cached"], &first["attempts"]), ("run 1", &json!(false), &json!(1)));
        let second = call(&app, json!({})).await;
        assert_eq!((succeeded(&second), &second["cached"], &second["attempts"]), ("run 1", &json!(true), &json!(0)));
        assert_ne!(first["id"], second["id"]);
        assert_eq!(server.requests().len(), 1);
        let stored = app.stored(second["id"].as_str().unwrap()).await;
        assert_eq!(stored, second);
    }
);

on_both_databases!(
    async fn hit_has_its_own_history(backend: Backend) {
        let server = numbered().await;
        let app = app_with(backend, &server).await;
        call(&app, json!({})).await;
        let hit = call(&app, json!({})).await;
        let path = format!("/tool-calls/{}/events", hit["id"].as_str().unwrap());
        let events = app.events(&path).await.rest().await;
        let history: Vec<(&str, &Value)> =
            events.iter().map(|event| (event.event.as_str(), &event.data["status"])).collect();
        let status = |status: &'static str| json!(status);
        let (wait, doing, success) = (status("WAIT"), status("DOING"), status("SUCCESS"));
        let expected = [
            ("tool_call", &Value::Null),
            ("status", &wait),
            ("status", &doing),
            ("status", &success),
            ("tool_result", &Value::Null),
        ];
        assert_eq!(history, expected);
        assert_eq!(events[4].data["output"], "run 1");
    }
);

on_both_databases!(
    async fn hits_are_counted_apart(backend: Backend) {
        let server = numbered().await;
        let app = app_with(backend, &server).await;
        for _ in 0..4 {
            call(&app, json!({})).await;
        }
        let stats = app.get("/tools/t/stats?window=1h").await.ok();
        let expected = json!({"execution_count": 1, "success_count": 1, "failure_count": 0, "cache_hit_count": 3,
            "rejected_count": 0, "rejected_by_code": {}, "failures_by_code": {}, "retry_count": 0});
        assert_counts(&stats, expected);
        let series = stats["series"].as_array().unwrap();
        let sum = |field: &str| series.iter().map(|minute| minute[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("execution_count"), sum("cache_hit_count"), sum("rejected_count")), (1, 3, 0));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn hit_has_the_full_result() {
    let answer = json!({
        "content": [{"type": "text", "text": "two"}, {"type": "image", "data": "AAAA", "mime_type": "image/png"}],
        "structured": {"n": 2}, "details": {"rows": 3}, "metadata": {"m": 1},
    });
    let server = HttpTool::answering(Answer::json(&answer)).await;
    let app = app_with(Backend::Sqlite, &server).await;
    let (first, second) = (call(&app, json!({})).await, call(&app, json!({})).await);
    assert_eq!(second["cached"], true);
    for field in ["output", "content", "structured", "metadata", "effective_arguments"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(second["details"]["rows"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_compared_as_the_tool_gets_them() {
    let server = numbered().await;
    let app = app_with(Backend::Sqlite, &server).await;
    let properties = json!({"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}});
    let more =
        crate::support::calls::with(global(), json!({"input_schema": {"type": "object", "properties": properties}}));
    app.tool("typed", &server, more).await;
    for arguments in [json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), json!({"a": "1"}), json!("{\"a\": 1 }")] {
        assert_eq!(succeeded(&app.call("typed", arguments).await), "run 1");
    }
    assert_eq!(succeeded(&app.call("typed", json!({"a": 2})).await), "run 2");
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 3", "another tool");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_is_not_cached() {
    let server = HttpTool::start("127.0.0.1", {
        let runs = std::sync::atomic::AtomicUsize::new(0);
        move |_| match runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Answer::status(400, "text/plain", "broken"),
            1 => Answer::json(&json!({"success": false, "error": "not today"})),
            _ => Answer::text("good"),
        }
    })
    .await;
    let app = app_with(Backend::Sqlite, &server).await;
    for _ in 0..2 {
        failed(&call(&app, json!({})).await, "TOOL_EXECUTION_ERROR");
    }
    let cached: Vec<Value> = [call(&app, json!({})).await, call(&app, json!({})).await]
        .iter()
        .map(|call| json!([succeeded(call), call["cached"]]))
        .collect();
    assert_eq!(cached, [json!(["good", false]), json!(["good", true])]);
    let expected = json!({"failure_count": 2, "success_count": 1, "cache_hit_count": 1});
    assert_counts(&app.stats("t").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_runs_and_stores_the_result() {
    let server = numbered().await;
    let app = app_with(Backend::Sqlite, &server).await;
    assert_eq!(succeeded(&call_with(&app, &[]).await), "run 1");
    let fresh = call_with(&app, &[("cache-control", "no-cache")]).await;
    assert_eq!((succeeded(&fresh), &fresh["cached"]), ("run 2", &json!(false)));
    assert_eq!(succeeded(&call_with(&app, &[]).await), "run 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_store_runs_and_stores_nothing() {
    let server = numbered().await;
    let app = app_with(Backend::Sqlite, &server).await;
    assert_eq!(succeeded(&call_with(&app, &[("cache-control", "no-store")]).await), "run 1");
    assert_eq!(succeeded(&call_with(&app, &[]).await), "run 2");
    assert_eq!(succeeded(&call_with(&app, &[("cache-control", "no-store")]).await), "run 3");
    assert_eq!(succeeded(&call_with(&app, &[]).await), "run 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_without_a_cache_runs_every_time() {
    let server = numbered().await;
    let app = App::with_egress(Backend::Sqlite).await;
    app.tool("t", &server, json!({"annotations": {"idempotent": true}})).await;
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 1");
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 2");
}
