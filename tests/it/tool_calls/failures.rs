//! Failures that a model must read: HTTP 200 and `ERROR`.

use serde_json::{Value, json};

use crate::support::shapes::{failed, names, names_field, points_at, succeeded};
use crate::support::{App, Backend};

async fn available(app: &App) -> String {
    names(&app.get("/tools").await.ok()["tools"]).join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_is_told_which_ones_there_are() {
    let app = App::on_sqlite().await;
    let call = app.call("xyzzy-0123456789", json!({})).await;
    let expected = format!("Error: Tool not found: xyzzy-0123456789\nAvailable tools: {}", available(&app).await);
    assert_eq!(failed(&call, "TOOL_NOT_FOUND"), expected);
    assert_eq!(call["error"]["retryable"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_tool_is_told_the_nearest_one() {
    let app = App::on_sqlite().await;
    let call = app.call("calculat", json!({})).await;
    let expected = format!(
        "Error: Tool not found: calculat\nAvailable tools: {}\nDid you mean: calculate?",
        available(&app).await
    );
    assert_eq!(failed(&call, "TOOL_NOT_FOUND"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_has_all_the_fields_of_an_error() {
    let app = App::on_sqlite().await;
    let call = app.call("nobody", json!({"a": 1})).await;
    assert!(call["error"]["message"].is_string() && call["error"]["retryable"].is_boolean());
    assert!(call["error"].get("retry_after_ms").is_some() && call["error"].get("details").is_some());
    assert_eq!(call["content"], json!([{"type": "text", "text": call["output"]}]));
    assert_eq!(call["details"]["success"], false);
    assert_eq!((&call["phase"], &call["arguments"]), (&json!("done"), &json!({"a": 1})));
    assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
}

on_both_databases!(
    async fn a_call_that_takes_too_long_ends_and_names_the_clock(backend: Backend) {
        let app = App::start(backend).await;
        let call =
            app.call_with(json!({"name": "wait", "arguments": {"ms": 60_000}, "limits": {"timeout_ms": 50}})).await;
        let output = failed(&call, "TOOL_TIMEOUT");
        assert!(output.starts_with("Error: Tool execution timeout after 50ms"), "{output}");
        assert!(output.contains("timeout_ms"), "{output}");
        assert_eq!(call["error"]["retryable"], true);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_own_limit_holds_where_the_call_has_none() {
    let app = App::on_sqlite().await;
    let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
    app.register(json!({
        "name": "nap", "description": "", "input_schema": schema, "limits": {"timeout_ms": 50},
        "executor": {"type": "builtin", "name": "wait"},
    }))
    .await;
    let call = app.call("nap", json!({"ms": 60_000})).await;
    assert!(failed(&call, "TOOL_TIMEOUT").starts_with("Error: Tool execution timeout after 50ms"));
    let patient = json!({"name": "nap", "arguments": {"ms": 60}, "limits": {"timeout_ms": 15_000}});
    succeeded(&app.call_with(patient).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_tool_can_have_is_an_unknown_tool() {
    let app = App::on_sqlite().await;
    for name in ["no such tool", "a\u{0}b", "😀", "a/b"] {
        let output = app.call(name, json!({})).await;
        assert!(failed(&output, "TOOL_NOT_FOUND").starts_with(&format!("Error: Tool not found: {name}\n")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_of_a_call_is_named_and_nothing_runs() {
    let app = App::on_sqlite().await;
    let problem = app.post("/tool-calls", &json!({"name": "echo", "argumnts": {}})).await.problem(422);
    names_field(&problem, "argumnts");
    let limits = json!({"name": "echo", "arguments": {}, "limits": {"timout_ms": 5}});
    let problem = app.post("/tool-calls", &limits).await.problem(422);
    names_field(&problem, "timout_ms");
    points_at(&problem, "/limits");
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_the_wrong_type_is_pointed_at() {
    let app = App::on_sqlite().await;
    let wrong = [
        ("/name", json!({"name": 5})),
        ("/id", json!({"name": "echo", "id": 5})),
        ("/limits/timeout_ms", json!({"name": "echo", "limits": {"timeout_ms": "5"}})),
        ("/limits/timeout_ms", json!({"name": "echo", "limits": {"timeout_ms": -5}})),
    ];
    for (pointer, body) in wrong {
        points_at(&app.post("/tool-calls", &body).await.problem(422), pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_call_is_refused() {
    let app = App::on_sqlite().await;
    for body in [json!({}), json!([]), json!("echo"), json!(null), json!({"arguments": {}}), json!({"calls": {}})] {
        app.post("/tool-calls", &body).await.client_problem();
    }
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_cut_off_at_the_token_limit_never_runs() {
    let app = App::on_sqlite().await;
    for reason in ["length", "max_tokens"] {
        let call = app.call_with(json!({"name": "echo", "arguments": {}, "stop_reason": reason})).await;
        let start = "Error: Tool call \"echo\" was not executed: the response hit the output token limit";
        assert!(failed(&call, "ARGUMENTS_TRUNCATED").starts_with(start), "{call:#}");
    }
    succeeded(&app.call_with(json!({"name": "echo", "arguments": {}, "stop_reason": "tool_calls"})).await);
    assert_eq!(app.stats("echo").await["execution_count"], 1);
}
