//! `POST /tools/{name}/validate`: validation without a call.

use serde_json::{Value, json};

use crate::support::{App, Backend};

async fn app_with_tool(backend: Backend) -> App {
    let app = App::start(backend).await;
    let properties = json!({"on": {"type": "boolean"}, "unit": {"type": "string", "default": "C"}});
    app.echo_with("t", json!({"type": "object", "properties": properties, "required": ["on"]})).await;
    app
}

async fn validate(app: &App, arguments: Value) -> Value {
    app.post("/tools/t/validate", &json!({"arguments": arguments})).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_arguments_are_returned_unchanged() {
    let app = app_with_tool(Backend::Sqlite).await;
    let given = json!({"on": true, "unit": "F"});
    let verdict = validate(&app, given.clone()).await;
    assert_eq!(verdict, json!({"valid": true, "arguments": given, "coerced": [], "errors": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn coerced_arguments_are_returned_with_defaults() {
    let app = app_with_tool(Backend::Sqlite).await;
    let verdict = validate(&app, json!({"on": "True"})).await;
    assert_eq!(verdict["valid"], true);
    assert_eq!(verdict["arguments"], json!({"on": true, "unit": "C"}));
    assert_eq!(verdict["coerced"], json!([{"pointer": "/on", "from": "string", "to": "boolean"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_returned_with_every_violation() {
    let app = app_with_tool(Backend::Sqlite).await;
    let verdict = validate(&app, json!({"unit": 7})).await;
    assert_eq!(verdict["valid"], false);
    let errors = verdict["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "{errors:#?}");
    for field in ["pointer", "message", "keyword", "expected"] {
        assert!(errors.iter().all(|error| !error[field].is_null()), "{field} in {errors:#?}");
    }
}

on_both_databases!(
    async fn validation_neither_runs_nor_counts(backend: Backend) {
        let app = app_with_tool(backend).await;
        validate(&app, json!({"on": true})).await;
        validate(&app, json!({})).await;
        assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
        let stats = app.stats("t").await;
        assert_eq!((&stats["execution_count"], &stats["rejected_count"]), (&json!(0), &json!(0)));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_is_a_404() {
    let app = App::on_sqlite().await;
    app.post("/tools/nobody/validate", &json!({"arguments": {}})).await.problem(404);
}
