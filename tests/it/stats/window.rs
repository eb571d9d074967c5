//! `?window=`: counts per minute.

use serde_json::{Value, json};

use crate::support::{App, Backend};

/// Returns the series of a response: its only list of objects that count executions.
fn series(answer: &Value) -> &Vec<Value> {
    let lists = answer.as_object().unwrap().values().filter_map(Value::as_array);
    let mut series = lists.filter(|list| list.iter().all(|point| point["execution_count"].is_u64()));
    let found = series.next().unwrap_or_else(|| panic!("no series in {answer:#}"));
    assert!(series.next().is_none(), "two series in {answer:#}");
    found
}

on_both_databases!(
    async fn minutes_of_the_last_hour_add_up_to_the_calls(backend: Backend) {
        let app = App::start(backend).await;
        for expression in ["1", "2", "2 +* ("] {
            app.call("calculate", json!({"expression": expression})).await;
        }
        let answer = app.get("/tools/calculate/stats?window=1h").await.ok();
        let sum = |field: &str| series(&answer).iter().map(|point| point[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("execution_count"), sum("success_count"), sum("failure_count")), (3, 2, 1));
    }
);

on_both_databases!(
    async fn steps_of_all_tools_add_up_to_the_window(backend: Backend) {
        let app = App::start(backend).await;
        for expression in ["1", "2", "2 +* ("] {
            app.call("calculate", json!({"expression": expression})).await;
        }
        app.call("echo", json!({})).await;
        app.call("unknown_tool", json!({})).await;
        let answer = app.get("/stats?window=30d&step=6h").await.ok();
        assert_eq!(answer["step"], "6h");
        let sum = |field: &str| -> u64 {
            answer["series"].as_array().unwrap().iter().map(|step| step[field].as_u64().unwrap()).sum()
        };
        assert_eq!((sum("execution_count"), sum("failure_count"), sum("rejected_count")), (4, 1, 1));
        let first = answer["series"][0]["minute"].as_str().unwrap();
        assert!(["00:00:00", "06:00:00", "12:00:00", "18:00:00"].iter().any(|start| first.contains(start)), "{first}");
        let tools = answer["tools"].as_array().unwrap();
        let of = |name: &str| tools.iter().find(|tool| tool["tool_name"] == name).unwrap();
        assert_eq!(of("calculate")["window"]["failures_by_code"], of("calculate")["failures_by_code"]);
        assert_eq!(of("calculate")["window"]["execution_count"], 3);
        assert_eq!(of("echo")["series"][0]["success_count"], 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn series_has_at_most_the_minutes_of_a_week() {
    let app = App::on_sqlite().await;
    for (query, step) in [("window=7d", "1m"), ("window=30d", "5m"), ("window=30d&step=1m", "5m"), ("step=1h", "1h")] {
        assert_eq!(app.get(&format!("/tools/echo/stats?{query}")).await.ok()["step"], step, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_window_is_rejected() {
    let app = App::on_sqlite().await;
    for window in ["soon", "-1h", "31d", "1h&step=2m"] {
        app.get(&format!("/tools/echo/stats?window={window}")).await.client_problem();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_empties_the_series() {
    let app = App::on_sqlite().await;
    app.call("echo", json!({})).await;
    app.delete("/tools/echo/stats").await;
    let answer = app.get("/tools/echo/stats?window=1h").await.ok();
    assert_eq!(series(&answer).iter().map(|point| point["execution_count"].as_u64().unwrap()).sum::<u64>(), 0);
}
