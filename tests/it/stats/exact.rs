//! Exact counts with concurrent calls, across restarts and nodes.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{App, Backend};

/// Sends `count` calls at once: one quarter fails, one quarter is rejected.
async fn storm(app: &App, count: usize) {
    let calls = (0..count).map(|n| {
        let arguments = match n % 4 {
            0 => json!({"expression": "2 +* ("}),
            1 => json!({}),
            _ => json!({"expression": "1+1"}),
        };
        app.call("calculate", arguments)
    });
    join_all(calls).await;
}

fn counts(stats: &Value) -> Value {
    json!([stats["execution_count"], stats["success_count"], stats["failures_by_code"], stats["rejected_by_code"]])
}

fn expected(count: usize) -> Value {
    let quarter = count / 4;
    json!([3 * quarter, 2 * quarter, {"TOOL_EXECUTION_ERROR": quarter}, {"TOOL_VALIDATION_ERROR": quarter}])
}

on_both_databases!(
    async fn two_hundred_parallel_calls_are_counted_once_and_survive_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        storm(&app, 200).await;
        let before = app.stats("calculate").await;
        assert_eq!(counts(&before), expected(200));
        let app = app.restart().await;
        assert_eq!(app.stats("calculate").await, before);
        storm(&app, 40).await;
        assert_eq!(counts(&app.stats("calculate").await), expected(240));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn two_services_on_one_postgres_count_together() {
    requires_postgres!();
    let app = App::start(Backend::Postgres).await;
    let other = app.second().await;
    tokio::join!(storm(&app, 100), storm(&other, 100));
    for service in [&app, &other] {
        assert_eq!(counts(&service.stats("calculate").await), expected(200));
    }
    assert_eq!(app.stats("calculate").await, other.stats("calculate").await);
}

on_both_databases!(
    async fn every_call_of_a_storm_is_recorded_once(backend: Backend) {
        let app = App::start(backend).await;
        storm(&app, 80).await;
        let mut ids = Vec::new();
        let mut path = "/tool-calls?limit=30".to_owned();
        loop {
            let page = app.get(&path).await.ok();
            ids.extend(crate::support::shapes::ids(&page["tool_calls"]));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/tool-calls?limit=30&cursor={cursor}");
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 80);
    }
);

on_both_databases!(
    async fn batch_counts_each_of_its_calls(backend: Backend) {
        let app = App::start(backend).await;
        let calls: Vec<Value> = (0..50).map(|_| json!({"name": "echo"})).collect();
        app.batch(json!({"calls": calls, "mode": "parallel"})).await;
        assert_eq!(app.stats("echo").await["success_count"], 50);
    }
);
