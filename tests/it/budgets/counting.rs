//! What a budget counts.

use serde_json::json;
use toolpost::domain::{Clock, Time};

use super::{DAY, budget, usage};
use crate::support::calls::{assert_counts, gated};
use crate::support::shapes::{failed, is_time, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Options};

on_both_databases!(
    async fn call_beyond_the_budget_is_rejected(backend: Backend) {
        let app = App::start(backend).await;
        budget(&app, "two", json!({"match": {"tools": ["ec*"]}, "max_calls": 2})).await;
        for n in 0..2 {
            succeeded(&app.call("echo", json!({"n": n})).await);
        }
        let rejected = app.call("echo", json!({"n": 3})).await;
        let text = failed(&rejected, "BUDGET_EXCEEDED");
        assert!(text.starts_with("Error: Budget \"two\" is used up. It refills at 20"), "{text}");
        let error = &rejected["error"];
        assert_eq!((&error["retryable"], &error["details"]["budget"]), (&json!(true), &json!("two")));
        let wait_ms = error["retry_after_ms"].as_u64().unwrap();
        assert!((DAY - 60_000..=DAY * 102 / 100).contains(&wait_ms), "{wait_ms}");
        assert_eq!(rejected["attempts"], 0);
        // Other tools are not counted.
        succeeded(&app.call("calculate", json!({"expression": "1"})).await);
        assert_eq!(usage(&app, "two").await, json!([2, 0, 2]));
        assert!(is_time(&app.get("/budgets/two").await.ok()["resets_at"]));
        assert_counts(&app.stats("echo").await, json!({"execution_count": 2, "rejected_count": 1}));
    }
);

on_both_databases!(
    async fn concurrent_calls_never_exceed_a_budget(backend: Backend) {
        let app = App::start(backend).await;
        budget(&app, "b", json!({"max_calls": 17})).await;
        let calls: Vec<_> = (0..60).map(|n| app.posted(json!({"name": "echo", "arguments": {"n": n}}))).collect();
        let mut run = 0;
        for call in calls {
            let call = call.await.unwrap().json;
            match call["status"] == "SUCCESS" {
                true => run += 1,
                false => drop(failed(&call, "BUDGET_EXCEEDED")),
            }
        }
        assert_eq!((run, usage(&app, "b").await), (17, json!([17, 0, 17])));
    }
);

on_both_databases!(
    async fn running_call_reserves_and_an_ended_one_uses(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("slow", &server, json!({})).await;
        budget(&app, "one", json!({"match": {"tools": ["slow"]}, "max_calls": 1})).await;
        let running = app.accepted(json!({"name": "slow", "wait": "accepted"})).await;
        server.received(1).await;
        assert_eq!(usage(&app, "one").await, json!([0, 1, 1]));
        let rejected = app.call("slow", json!({})).await;
        let text = failed(&rejected, "BUDGET_EXCEEDED");
        assert_eq!(
            text,
            "Error: Budget \"one\" is used up. Running calls hold the rest; try again when they have ended"
        );
        server.open();
        succeeded(&app.ended(&running).await);
        assert_eq!(usage(&app, "one").await, json!([1, 0, 1]));
    }
);

on_both_databases!(
    async fn call_that_never_ran_uses_nothing(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("slow", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
        budget(&app, "two", json!({"match": {"tools": ["slow"]}, "max_calls": 2})).await;
        let running = app.sent(json!({"name": "slow"})).await;
        server.received(1).await;
        let waiting = app.sent(json!({"name": "slow"})).await;
        app.in_phase(&waiting, "queued").await;
        assert_eq!(app.cancel(&waiting).await.status, 202);
        failed(&app.ended(&waiting).await, "CANCELLED");
        server.open();
        succeeded(&app.ended(&running).await);
        assert_eq!(usage(&app, "two").await, json!([1, 0, 2]));
        succeeded(&app.ended(&app.sent(json!({"name": "slow"})).await).await);
        assert_eq!(usage(&app, "two").await, json!([2, 0, 2]));
    }
);

on_both_databases!(
    async fn use_leaves_the_window_with_time(backend: Backend) {
        let clock = Clock::manual(Time(1_767_225_600_000_000));
        let app = App::start_with(backend, Options { clock: Some(clock.clone()), ..Options::default() }).await;
        budget(&app, "b", json!({"window_ms": 10_000, "max_calls": 2})).await;
        succeeded(&app.call("echo", json!({"n": 1})).await);
        clock.advance_ms(4_000);
        succeeded(&app.call("echo", json!({"n": 2})).await);
        let rejected = app.call("echo", json!({"n": 3})).await;
        failed(&rejected, "BUDGET_EXCEEDED");
        // The first use leaves the window at the end of its step, a hundredth of the window.
        let wait_ms = rejected["error"]["retry_after_ms"].as_i64().unwrap();
        assert!((6_000..=6_101).contains(&wait_ms), "{wait_ms}");
        clock.advance_ms(wait_ms - 2);
        failed(&app.call("echo", json!({"n": 4})).await, "BUDGET_EXCEEDED");
        clock.advance_ms(2);
        succeeded(&app.call("echo", json!({"n": 5})).await);
        failed(&app.call("echo", json!({"n": 6})).await, "BUDGET_EXCEEDED");
        clock.advance_ms(20_000);
        assert_eq!(usage(&app, "b").await, json!([0, 0, 2]));
        assert_eq!(app.get("/budgets/b").await.ok()["resets_at"], json!(null));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn cached_results_and_invalid_calls_use_nothing() {
    let app = App::on_sqlite().await;
    let tool = json!({"name": "kept", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": {"idempotent": true}, "cache": {"ttl_ms": 60_000, "scope": "global"},
        "executor": {"type": "builtin", "name": "echo"}});
    app.register(tool).await;
    budget(&app, "b", json!({"max_calls": 2})).await;
    for _ in 0..3 {
        succeeded(&app.call("kept", json!({"n": 1})).await);
    }
    failed(&app.call("kept", json!({"n": "x"})).await, "TOOL_VALIDATION_ERROR");
    failed(&app.call("unknown", json!({})).await, "TOOL_NOT_FOUND");
    assert_eq!(usage(&app, "b").await, json!([1, 0, 2]));
}

on_both_databases!(
    async fn cost_of_the_definition_counts_unless_the_tool_reports_another(backend: Backend) {
        let reports = HttpTool::answering(Answer::json(&json!({"output": "ok", "details": {"cost": 0.05}}))).await;
        let app = App::with_egress(backend).await;
        app.tool("cheap", &reports, json!({"cost": 0.3})).await;
        let silent = HttpTool::answering(Answer::text("ok")).await;
        app.tool("dear", &silent, json!({"cost": 0.3})).await;
        budget(&app, "money", json!({"max_cost": 1})).await;
        succeeded(&app.call("cheap", json!({})).await);
        assert_eq!(usage(&app, "money").await, json!([0.05, 0.0, 1.0]));
        for _ in 0..3 {
            succeeded(&app.call("dear", json!({})).await);
        }
        // 0.95 are used, and the definition expects 0.3.
        failed(&app.call("cheap", json!({})).await, "BUDGET_EXCEEDED");
        assert_eq!(usage(&app, "money").await, json!([0.95, 0.0, 1.0]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_keys_select_the_calls() {
    let app = App::on_sqlite().await;
    budget(&app, "chat", json!({"match": {"sessions": ["chat-*"]}, "max_calls": 1})).await;
    let call = |session: &str| json!({"name": "echo", "arguments": {}, "session": session});
    succeeded(&app.post("/tool-calls", &call("chat-1")).await.json);
    failed(&app.post("/tool-calls", &call("chat-2")).await.json, "BUDGET_EXCEEDED");
    succeeded(&app.post("/tool-calls", &call("other")).await.json);
    succeeded(&app.call("echo", json!({})).await);
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&admin);
    let (key, id) = operator.key(json!({"scopes": ["call"]})).await;
    let caller = app.with_key(&key);
    budget(&operator, "key", json!({"match": {"keys": [id]}, "max_calls": 1})).await;
    succeeded(&caller.call("echo", json!({})).await);
    failed(&caller.call("echo", json!({})).await, "BUDGET_EXCEEDED");
    let (key, _) = operator.key(json!({"scopes": ["call"]})).await;
    let other = app.with_key(&key);
    succeeded(&other.call("echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_must_fit_every_budget_that_counts_it() {
    let app = App::on_sqlite().await;
    budget(&app, "a", json!({"max_calls": 5})).await;
    budget(&app, "b", json!({"max_calls": 1})).await;
    succeeded(&app.call("echo", json!({})).await);
    assert!(failed(&app.call("echo", json!({})).await, "BUDGET_EXCEEDED").contains("\"b\""));
    // What was reserved in the first budget is free again.
    assert_eq!(usage(&app, "a").await, json!([1, 0, 5]));
}
