//! Validation of results against `output_schema`.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::app::echo_tool;
use crate::support::shapes::{failed, succeeded};

/// Starts a service with a tool of `echo` whose result must have an integer `n`.
async fn app_with(check: Value) -> App {
    let app = App::on_sqlite().await;
    let mut tool = echo_tool("t", json!({"type": "object"}));
    tool["output_schema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    tool["output_check"] = check;
    app.register(tool).await;
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mismatch_is_the_exact_error() {
    let app = app_with(json!("strict")).await;
    let call = app.call("t", json!({"n": "five"})).await;
    let expected = "Error: Tool \"t\" returned a result that does not match its output schema";
    assert!(failed(&call, "RESULT_INVALID").starts_with(expected), "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_match_succeeds() {
    let app = app_with(json!("strict")).await;
    assert_eq!(succeeded(&app.call("t", json!({"n": 5})).await), r#"{"n":5}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn mismatch_only_warns_by_default() {
    let app = app_with(json!("warn")).await;
    assert_eq!(succeeded(&app.call("t", json!({"n": "five"})).await), r#"{"n":"five"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mismatch_counts_as_a_failed_run() {
    let app = app_with(json!("strict")).await;
    app.call("t", json!({})).await;
    let stats = app.stats("t").await;
    assert_eq!((&stats["execution_count"], &stats["rejected_count"]), (&json!(1), &json!(0)));
    assert_eq!(stats["failures_by_code"], json!({"RESULT_INVALID": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn result_is_never_coerced() {
    let app = app_with(json!("strict")).await;
    failed(&app.call("t", json!({"n": "5"})).await, "RESULT_INVALID");
}
