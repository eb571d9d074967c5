//! The tools written in Rust that `support::service::rust_tools` describes.

mod instances;

use serde_json::{Value, json};

use crate::support::service::rust_tools;
use crate::support::shapes::{failed, succeeded, violation};
use crate::support::{App, Backend, Options};

async fn app_on(backend: Backend) -> App {
    App::start_with(backend, Options { extra: rust_tools(), ..Options::default() }).await
}

on_both_databases!(
    async fn panic_fails_only_its_call(backend: Backend) {
        let app = app_on(backend).await;
        let calls = json!([{"name": "echo"}, {"name": "panics"}, {"name": "blocks", "arguments": {"text": "x"}}]);
        let results = app.batch(json!({"calls": calls, "mode": "parallel"})).await;
        let output = failed(&results[1], "TOOL_EXECUTION_ERROR");
        assert!(output.starts_with("Error executing tool \"panics\": "), "{output}");
        assert!(!output.contains(".rs:") && !output.contains("stack backtrace"), "{output}");
        assert_eq!((succeeded(&results[0]), succeeded(&results[2])), ("{}", "x"));
        assert_eq!(app.stats("panics").await["failures_by_code"], json!({"TOOL_EXECUTION_ERROR": 1}));
        succeeded(&app.call("echo", json!({})).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn error_of_the_tool_is_returned_unchanged() {
    let app = app_on(Backend::Sqlite).await;
    let call = app.call("fails", json!({})).await;
    assert_eq!(failed(&call, "TOOL_EXECUTION_ERROR"), "Error executing tool \"fails\": no such city");
    assert_eq!(call["error"]["retryable"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_can_reject_arguments_that_its_schema_accepts() {
    let app = app_on(Backend::Sqlite).await;
    assert_eq!(succeeded(&app.call("picky", json!({"n": 4})).await), "4");
    let call = app.call("picky", json!({"n": 5})).await;
    assert_eq!(call["output"], "Error: Invalid parameters for tool \"picky\"\n- /n: must be even");
    assert_eq!(violation(&call)["pointer"], "/n");
    assert_eq!(app.stats("picky").await["rejected_by_code"], json!({"TOOL_VALIDATION_ERROR": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_of_typed_arguments_is_generated() {
    let app = app_on(Backend::Sqlite).await;
    let schema = app.get("/tools/typed").await.ok()["input_schema"].clone();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["city"])));
    let call = app.call("typed", json!({"city": "Rome", "days": "3"})).await;
    assert_eq!(call["structured"], json!({"city": "Rome", "days": 3}));
    assert_eq!(violation(&app.call("typed", json!({"city": "Rome", "days": 256})).await)["pointer"], "/days");
    assert_eq!(app.call("typed", json!({"city": "Rome"})).await["structured"]["days"], Value::Null);
}

on_both_databases!(
    async fn reports_of_a_tool_accumulate_over_the_call(backend: Backend) {
        let app = app_on(backend).await;
        let call = app.call("reports", json!({})).await;
        assert_eq!(succeeded(&call), "reported");
        assert_eq!((&call["tip"], &call["metadata"]), (&json!("two"), &json!({"m": {"x": 1, "y": 2}})));

        let path = format!("/tool-calls/{}/events", call["id"].as_str().unwrap());
        let events = app.events(&path).await.rest().await;
        let last = events.iter().rfind(|event| event.event == "status").unwrap();
        assert_eq!(last.data["params"], json!({"a": {"x": 1, "y": 2}, "list": [3]}));
        assert_eq!((&last.data["tip"], &last.data["metadata"]), (&json!("two"), &call["metadata"]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn emissions_are_reported_in_order_and_are_no_output() {
    let app = app_on(Backend::Sqlite).await;
    let events = app.call_streamed(&json!({"name": "reports"})).await.rest().await;
    let at = events.iter().position(|event| event.event == "progress").unwrap();
    assert_eq!(events[at].data["content"], json!([{"type": "text", "text": "half way"}]));
    assert_eq!(events[at].data["details"], json!({"step": 1}));
    let before = events[..at].iter().rfind(|event| event.event == "status").unwrap();
    assert_eq!((&before.data["tip"], &before.data["params"]["list"]), (&json!("one"), &json!([1, 2])));
    let result = events.iter().find(|event| event.is_result()).unwrap();
    assert_eq!(result.data["output"], "reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_tool_blocks_no_other() {
    let app = app_on(Backend::Sqlite).await;
    let calls: Vec<Value> = (0..20).map(|n| json!({"name": "blocks", "arguments": {"text": format!("{n}")}})).collect();
    let results = app.batch(json!({"calls": calls, "mode": "parallel"})).await;
    let outputs: Vec<&str> = results.iter().map(succeeded).collect();
    assert_eq!(outputs, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}
