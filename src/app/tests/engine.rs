//! Tests of planning, by the vendor of the model and the tool that it called.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::app::App;
use crate::config::Config;
use crate::domain::{Call, CallRequest, Time, ToolDefinition, Vendor};
use crate::engine::{Submission, Wait};

mod conversation;
mod restore_arguments;

const VENDORS: [Vendor; 4] = [Vendor::OpenAi, Vendor::OpenAiResponses, Vendor::Anthropic, Vendor::Gemini];

async fn service(tools: Value) -> App {
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".into();
    config.tools.discovery = true;
    let app = App::builder(config).start().await.unwrap();
    let tools: Vec<ToolDefinition> = serde_json::from_value(tools).unwrap();
    app.engine.registry().show_files(tools.into_iter().map(|tool| (tool, Time(0))).collect()).unwrap();
    app
}

fn echo(name: &str, properties: Value, required: &[&str]) -> Value {
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    json!({"name": name, "coerce": false, "input_schema": schema, "executor": {"type": "builtin", "name": "echo"}})
}

async fn ended(app: &App, request: CallRequest) -> Arc<Call> {
    let submission = Submission { calls: vec![request], wait: Wait::Result, ..Submission::default() };
    let submitted = app.engine.submit_now(&app.operator, submission, &app.engine.ids(1), 0).unwrap();
    submitted.wait_all().await.unwrap().remove(0)
}

fn call_request(name: &str, arguments: Value, vendor: Option<Vendor>) -> CallRequest {
    CallRequest { name: name.into(), arguments: Some(arguments), vendor, ..CallRequest::default() }
}

fn output(call: &Call) -> &str {
    &call.outcome.as_ref().unwrap().output
}

#[tokio::test]
async fn alias_resolves_to_the_tool() {
    let app = service(json!([echo("9.lives", json!({"a": {"type": "integer"}}), &["a"])])).await;
    let snapshot = app.engine.registry().default_catalog().snapshot().clone();
    for vendor in VENDORS {
        let alias = snapshot.name_for(snapshot.get("9.lives").unwrap(), Some(vendor)).unwrap();
        assert_ne!(alias, "9.lives");
        let call = ended(&app, call_request(alias, json!({"a": 1}), Some(vendor))).await;
        assert_eq!((&*call.name, output(&call)), ("9.lives", r#"{"a":1}"#), "{vendor:?}");
    }
    let stats = app.store.stats(Some("9.lives")).await.unwrap();
    assert_eq!(stats[0].execution_count, 4);
}

#[tokio::test]
async fn unknown_tool_is_reported_in_the_names_of_the_vendor() {
    let app = service(json!([echo("9.lives", json!({}), &[])])).await;
    for vendor in VENDORS {
        let call = ended(&app, call_request("nobody", json!({}), Some(vendor))).await;
        assert!(!output(&call).contains("9.lives") && output(&call).contains("9_lives_"), "{}", output(&call));
    }
    assert!(output(&*ended(&app, call_request("nobody", json!({}), None)).await).contains("9.lives"));
}

#[tokio::test]
async fn valid_arguments_stay_unchanged() {
    let app = service(json!([echo("t", json!({"a": {"type": ["integer", "null"]}}), &[])])).await;
    for vendor in VENDORS {
        let call = ended(&app, call_request("t", json!({"a": null}), Some(vendor))).await;
        assert_eq!(output(&call), r#"{"a":null}"#, "{vendor:?}");
    }
}

#[tokio::test]
async fn forwarded_call_becomes_a_call_of_its_target() {
    let app = service(json!([echo("t.x", json!({"a": {"type": "integer"}}), &["a"])])).await;
    for arguments in [json!({"a": 1}), json!(r#"{"a":1}"#)] {
        let call = ended(&app, call_request("call_tool", json!({"name": "t.x", "arguments": arguments}), None)).await;
        assert_eq!((&*call.name, output(&call)), ("t.x", r#"{"a":1}"#));
        assert_eq!((&*call.arguments, &call.metadata["called_through"]), (&arguments, &json!("call_tool")));
    }
    let text = json!({"name": "t.x", "arguments": {"a": 1}}).to_string();
    assert_eq!(output(&*ended(&app, call_request("call_tool", text.into(), None)).await), r#"{"a":1}"#);
    let invalid = ended(&app, call_request("call_tool", json!({"name": "t.x"}), None)).await;
    assert!(output(&invalid).starts_with("Error: Invalid parameters for tool \"t.x\""), "{}", output(&invalid));
    let malformed = ended(&app, call_request("call_tool", json!({"name": "t.x", "arguments": "{\"a"}), None)).await;
    assert!(
        output(&malformed).starts_with("Error: Invalid JSON in arguments for tool \"t.x\""),
        "{}",
        output(&malformed)
    );
    let stats = app.store.stats(None).await.unwrap();
    let counted: Vec<(&str, u64, u64)> =
        stats.iter().map(|stats| (&*stats.tool_name, stats.execution_count, stats.rejected_count)).collect();
    assert_eq!(counted, [("t.x", 3, 2)]);
}

#[tokio::test]
async fn forwarded_call_of_an_unknown_tool_is_not_found() {
    let app = service(json!([])).await;
    for name in ["call_tool", "find_tools", "nobody"] {
        let call = ended(&app, call_request("call_tool", json!({"name": name, "arguments": {}}), None)).await;
        assert!(output(&call).starts_with(&format!("Error: Tool not found: {name}\n")), "{}", output(&call));
    }
}

#[tokio::test]
async fn forwarded_call_without_a_target_is_explained() {
    let app = service(json!([echo("t", json!({}), &[])])).await;
    for arguments in [json!({}), json!({"name": 5}), json!({"name": "t", "a": 1}), json!({"name": "t", "arguments": 1})]
    {
        let call = ended(&app, call_request("call_tool", arguments, None)).await;
        assert!(output(&call).starts_with("Error: Invalid parameters for tool \"call_tool\""), "{}", output(&call));
    }
    let call = ended(&app, call_request("call_tool", json!("{\"name\":"), None)).await;
    assert!(output(&call).starts_with("Error: Invalid JSON in arguments for tool \"call_tool\""), "{}", output(&call));
}

#[tokio::test]
async fn truncated_forwarded_call_does_not_run() {
    let app = service(json!([echo("t", json!({}), &[])])).await;
    let request = CallRequest { truncated: true, ..call_request("call_tool", json!({"name": "t"}), None) };
    let call = ended(&app, request).await;
    assert!(output(&call).starts_with("Error: Tool call \"call_tool\" was not executed"), "{}", output(&call));
}
