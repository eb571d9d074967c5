//! Round trips: a vendor's list, the call in that vendor's message, and the arguments that the tool gets.

use serde_json::{Value, json};

use crate::support::App;

/// Starts a service with a tool whose name is invalid for all vendors and whose arguments are not coerced.
async fn service() -> App {
    let app = App::on_sqlite().await;
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let executor = json!({"type": "builtin", "name": "echo"});
    app.register(json!({"name": "9.weather", "input_schema": schema, "coerce": false, "executor": executor})).await;
    app
}

/// Returns the tool's name in a list.
async fn alias(app: &App, format: &str) -> String {
    let list = app.get(&format!("/tools?format={format}")).await.ok()["tools"].to_string();
    let begin = list.find("_9_weather_").unwrap_or_else(|| panic!("no alias in {list}"));
    list[begin..].split('"').next().unwrap().to_owned()
}

/// Returns a model's message with one call.
fn message(format: &str, name: &str, arguments: &Value) -> Value {
    let text = arguments.to_string();
    match format {
        "openai" | "openai-strict" => {
            let call = json!({"id": "c", "type": "function", "function": {"name": name, "arguments": text}});
            json!({"role": "assistant", "tool_calls": [call]})
        }
        "openai-responses" => {
            json!({"output": [{"type": "function_call", "call_id": "c", "name": name, "arguments": text}]})
        }
        "anthropic" => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": name, "input": arguments}]})
        }
        _ => json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": arguments}}]}}]}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_under_an_alias_with_lowered_arguments_runs_the_tool() {
    let app = service().await;
    for (format, arguments) in [
        ("openai", json!({"city": "Rome"})),
        ("openai-strict", json!({"city": "Rome", "days": null})),
        ("openai-responses", json!({"city": "Rome"})),
        ("anthropic", json!({"city": "Rome"})),
        ("gemini", json!({"city": "Rome"})),
    ] {
        let alias = alias(&app, format).await;
        let answer = app.post("/tool-calls", &message(format, &alias, &arguments)).await.ok();
        let call = &answer["results"][0];
        assert_eq!((&call["name"], &call["output"]), (&json!("9.weather"), &json!(r#"{"city":"Rome"}"#)), "{answer:#}");
        assert!(!answer["messages"].to_string().contains("9.weather"), "{format}: {}", answer["messages"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_error_lists_aliases() {
    let app = service().await;
    for format in ["openai", "openai-responses", "anthropic", "gemini"] {
        let alias = alias(&app, format).await;
        let answer = app.post("/tool-calls", &message(format, "nobody", &json!({}))).await.ok();
        let output = answer["results"][0]["output"].as_str().unwrap();
        assert!(output.contains(&alias) && !output.contains("9.weather"), "{format}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_restored_even_for_a_permissive_tool() {
    let app = App::on_sqlite().await;
    let executor = json!({"type": "builtin", "name": "echo"});
    let named = json!({"type": "object", "properties": {"城市": {"type": "string"}}});
    app.register(json!({"name": "named", "input_schema": named, "executor": executor})).await;
    let open = json!({"type": "object", "additionalProperties": {}});
    app.register(json!({"name": "open", "input_schema": open, "executor": executor})).await;
    let nested =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]});
    app.register(json!({"name": "nested", "input_schema": nested, "executor": executor})).await;
    for (format, name, given, expected) in [
        ("gemini", "named", json!({"__": "北京"}), json!({"城市": "北京"})),
        ("anthropic", "named", json!({"__": "北京"}), json!({"城市": "北京"})),
        ("anthropic", "named", json!({"城市": "北京"}), json!({"城市": "北京"})),
        ("gemini", "open", json!({"entries": [{"key": "a", "value": 1}]}), json!({"a": 1})),
        ("openai-strict", "open", json!({"entries": [{"key": "a", "value": 1}]}), json!({"a": 1})),
        ("openai", "open", json!({"b": 2}), json!({"b": 2})),
        ("openai-strict", "nested", json!({"a": "x", "b": null}), json!({"a": "x"})),
    ] {
        let answer = app.post("/tool-calls", &message(format, name, &given)).await.ok();
        assert_eq!(answer["results"][0]["structured"], expected, "{format} {name} {given}: {answer:#}");
    }
    let losses = app.get("/tools?format=gemini&losses=true").await.ok();
    let named = losses["losses"].as_array().unwrap().iter().find(|tool| tool["name"] == "named").expect("a loss");
    assert!(named.to_string().contains("城市"), "{named}");
    let reported = losses["tools"].to_string();
    assert!(reported.contains("Original name: `城市`."), "{reported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn native_body_with_a_format_is_answered_in_vendor_names() {
    let app = service().await;
    let body = json!({"format": "gemini", "calls": [{"name": "9.weather", "arguments": {"city": "Rome"}}]});
    let answer = app.post("/tool-calls", &body).await.ok();
    let shown = alias(&app, "gemini").await;
    assert_eq!(answer["messages"][0]["parts"][0]["functionResponse"]["name"], json!(shown));
}
