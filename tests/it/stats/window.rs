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
    async fn the_minutes_of_the_last_hour_add_up_to_what_was_called(backend: Backend) {
        let app = App::start(backend).await;
        for expression in ["1", "2", "2 +* ("] {
            app.call("calculate", json!({"expression": expression})).await;
        }
        let answer = app.get("/tools/calculate/stats?window=1h").await.ok();
        let sum = |field: &str| series(&answer).iter().map(|point| point[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("execution_count"), sum("success_count"), sum("failure_count")), (3, 2, 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_none_is_refused() {
    let app = App::on_sqlite().await;
    for window in ["soon", "-1h"] {
        app.get(&format!("/tools/echo/stats?window={window}")).await.client_problem();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_empties_the_series() {
    let app = App::on_sqlite().await;
    app.call("echo", json!({})).await;
    app.delete("/tools/echo/stats").await;
    let answer = app.get("/tools/echo/stats?window=1h").await.ok();
    assert_eq!(series(&answer).iter().map(|point| point["execution_count"].as_u64().unwrap()).sum::<u64>(), 0);
}
