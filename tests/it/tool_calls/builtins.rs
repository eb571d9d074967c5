//! The tools that always exist.

use serde_json::json;

use crate::support::App;
use crate::support::shapes::{failed, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn echo_returns_its_arguments() {
    let app = App::on_sqlite().await;
    for arguments in [json!({}), json!({"success": false}), json!({"error": "no"}), json!({"output": "x"})] {
        let call = app.call("echo", arguments.clone()).await;
        assert_eq!(succeeded(&call), arguments.to_string());
        assert_eq!(call["structured"], arguments);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calculate_calculates() {
    let app = App::on_sqlite().await;
    for (expression, result) in [("2*(3+4)", "14"), ("2^10", "1024"), ("7/2", "3.5"), ("-3 + 1", "-2")] {
        assert_eq!(succeeded(&app.call("calculate", json!({"expression": expression})).await), result);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calculate_explains_invalid_expressions() {
    let app = App::on_sqlite().await;
    let call = app.call("calculate", json!({"expression": "2 +* ("})).await;
    let output = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(output.starts_with("Error executing tool \"calculate\": "), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn current_time_knows_the_zones() {
    let app = App::on_sqlite().await;
    for arguments in [json!({}), json!({"timezone": "UTC"}), json!({"timezone": "Asia/Tokyo"})] {
        assert!(!succeeded(&app.call("current_time", arguments).await).is_empty());
    }
    let nowhere = app.call("current_time", json!({"timezone": "Mars/Olympus"})).await;
    assert_eq!(nowhere["status"], "ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_waits_and_counts_its_steps() {
    let app = App::on_sqlite().await;
    succeeded(&app.call("wait", json!({"ms": 0})).await);
    let call = app.call("wait", json!({"ms": 6, "steps": 3})).await;
    succeeded(&call);
    assert_eq!((call["progress"]["current"].as_f64(), call["progress"]["total"].as_f64()), (Some(3.0), Some(3.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_waits_no_longer_than_five_minutes() {
    let app = App::on_sqlite().await;
    assert_eq!(app.call("wait", json!({"ms": 300_001})).await["status"], "ERROR");
    assert_eq!(app.call("wait", json!({"ms": -1})).await["status"], "ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_double_is_an_integer_to_a_rust_tool() {
    let app = App::on_sqlite().await;
    for ms in [json!(1.0), json!(1e0), json!("1.0")] {
        assert_eq!(succeeded(&app.call("wait", json!({"ms": ms})).await), "Waited 1 ms");
    }
}
