//! Failures for the model: HTTP 200 with status `ERROR`.

use serde_json::{Value, json};

use crate::support::shapes::{failed, names, names_field, points_at, succeeded};
use crate::support::{App, Backend, Options};

async fn available(app: &App) -> String {
    names(&app.get("/tools").await.ok()["tools"]).join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_error_lists_the_available_tools() {
    let app = App::on_sqlite().await;
    let call = app.call("xyzzy-0123456789", json!({})).await;
    let expected = format!("Error: Tool not found: xyzzy-0123456789\nAvailable tools: {}", available(&app).await);
    assert_eq!(failed(&call, "TOOL_NOT_FOUND"), expected);
    assert_eq!(call["error"]["retryable"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn misspelt_tool_error_names_the_nearest_one() {
    let app = App::on_sqlite().await;
    let call = app.call("calculat", json!({})).await;
    let expected = format!(
        "Error: Tool not found: calculat\nAvailable tools: {}\nDid you mean: calculate?",
        available(&app).await
    );
    assert_eq!(failed(&call, "TOOL_NOT_FOUND"), expected);
}

/// Registers `count` tools named by `name`.
async fn register_many(app: &App, count: usize, name: impl Fn(usize) -> String) {
    for number in 0..count {
        let executor = json!({"type": "builtin", "name": "echo"});
        app.register(json!({"name": name(number), "input_schema": {"type": "object"}, "executor": executor})).await;
    }
}

/// Calls an unknown tool. Returns the lines of its output, the names in it, and the details of the error.
async fn not_found(app: &App, name: &str) -> (Vec<String>, Vec<String>, Value) {
    let call = app.call(name, json!({})).await;
    let lines: Vec<String> = failed(&call, "TOOL_NOT_FOUND").lines().map(str::to_owned).collect();
    let list = lines[1].strip_prefix("Available tools: ").unwrap();
    let listed: Vec<String> = list.split(", ").map(str::to_owned).collect();
    assert_eq!(call["error"]["details"]["available_tools"], json!(listed));
    (lines, listed, call["error"]["details"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_list_of_available_tools_begins_with_the_nearest_and_counts_the_rest() {
    let app = App::on_sqlite().await;
    register_many(&app, 100, |number| format!("tool_{number:03}")).await;
    app.register(json!({"name": "zebra.send", "input_schema": {"type": "object"}, "executor": {"type": "external"}}))
        .await;
    let total = app.get("/tools").await.ok()["total"].as_u64().unwrap();
    let (lines, listed, details) = not_found(&app, "send_zebra").await;
    assert_eq!((lines[0].as_str(), listed.len()), ("Error: Tool not found: send_zebra", 50));
    assert_eq!(listed[0], "zebra.send");
    let more = total - 50;
    assert_eq!(lines[2..], [format!("{more} more tools exist: `GET /tools?q=` finds them")]);
    assert_eq!(details["more_tools"], more);

    let (lines, listed, _) = not_found(&app, "tool_42").await;
    assert_eq!((listed[0].as_str(), lines[2].as_str()), ("tool_042", "Did you mean: tool_042?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_of_available_tools_has_at_most_2000_characters() {
    let app = App::on_sqlite().await;
    register_many(&app, 20, |number| format!("{number:03}{}", "x".repeat(125))).await;
    let (lines, listed, details) = not_found(&app, "007").await;
    let length = lines[1].len() - "Available tools: ".len();
    assert!(length <= 2000 && length + 130 > 2000, "{length}");
    let total = app.get("/tools").await.ok()["total"].as_u64().unwrap();
    assert_eq!(details["more_tools"], total - listed.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_list_of_available_tools_names_find_tools() {
    let options = Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    register_many(&app, 60, |number| format!("tool_{number:03}")).await;
    let (lines, _, details) = not_found(&app, "xyzzy").await;
    assert_eq!(lines[2], format!("{} more tools exist: the tool find_tools finds them", details["more_tools"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_has_all_error_fields() {
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
    async fn call_that_takes_too_long_ends_and_names_the_timeout(backend: Backend) {
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
async fn limit_of_the_tool_applies_if_the_call_has_none() {
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
async fn invalid_tool_name_is_an_unknown_tool() {
    let app = App::on_sqlite().await;
    for name in ["no such tool", "a\u{0}b", "😀", "a/b"] {
        let output = app.call(name, json!({})).await;
        assert!(failed(&output, "TOOL_NOT_FOUND").starts_with(&format!("Error: Tool not found: {name}\n")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_field_of_a_call_is_named_and_nothing_runs() {
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
async fn unknown_field_is_answered_with_all_fields_the_nearest_first() {
    let app = App::on_sqlite().await;
    let detail_of = async |body: Value| {
        let problem = app.post("/tool-calls", &body).await.problem(422);
        problem["errors"][0]["message"].as_str().unwrap().to_owned()
    };
    let text = detail_of(json!({"name": "echo", "args": {}})).await;
    assert!(
        text.starts_with("unknown field `args`: did you mean `arguments`? expected one of `arguments`, "),
        "{text}"
    );
    for member in ["name", "id", "session", "context", "mode", "limits", "wait", "partial", "callback_url", "format"] {
        assert!(text.contains(&format!("`{member}`")), "{member}: {text}");
    }
    assert!(!text.contains("`calls`"), "{text}");
    let text = detail_of(json!({"calls": [{"name": "echo", "arguments": {}}], "sesion": "s"})).await;
    assert!(text.contains("did you mean `session`?") && text.contains("`calls`"), "{text}");
    let text = detail_of(json!({"calls": [{"name": "echo", "input": {}}]})).await;
    assert!(["name", "arguments", "id", "limits", "retry", "priority"].iter().all(|one| text.contains(one)), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn root_of_the_arguments_has_a_name_in_the_text() {
    let app = App::on_sqlite().await;
    app.echo_with("t", json!({"type": "object", "properties": {"x": {}}, "required": ["x"]})).await;
    let call = app.call("t", json!({})).await;
    let text = failed(&call, "TOOL_VALIDATION_ERROR");
    assert!(text.contains("\n- (root): missing required property"), "{text}");
    assert_eq!(call["error"]["details"]["validation_errors"][0]["pointer"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn field_of_the_wrong_type_is_named() {
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
async fn body_without_a_call_is_rejected() {
    let app = App::on_sqlite().await;
    for body in [json!({}), json!([]), json!("echo"), json!(null), json!({"arguments": {}}), json!({"calls": {}})] {
        app.post("/tool-calls", &body).await.client_problem();
    }
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_truncated_at_the_token_limit_never_runs() {
    let app = App::on_sqlite().await;
    for reason in ["length", "max_tokens"] {
        let call = app.call_with(json!({"name": "echo", "arguments": {}, "stop_reason": reason})).await;
        let start = "Error: Tool call \"echo\" was not executed: the response hit the output token limit";
        assert!(failed(&call, "ARGUMENTS_TRUNCATED").starts_with(start), "{call:#}");
    }
    succeeded(&app.call_with(json!({"name": "echo", "arguments": {}, "stop_reason": "tool_calls"})).await);
    assert_eq!(app.stats("echo").await["execution_count"], 1);
}
