//! Tests of the restoration of arguments from a vendor's lowered schema.

use serde_json::{Value, json};

use super::{call_request, echo, ended, output, service};
use crate::app::App;
use crate::domain::Vendor;
use crate::schema::lower::Target;

const OPENAI: [Vendor; 2] = [Vendor::OpenAi, Vendor::OpenAiResponses];

/// Returns the properties of a tool's lowered schema.
fn shown(app: &App, tool: &str, target: Target) -> Value {
    let snapshot = app.engine.registry().default_catalog().snapshot();
    snapshot.get(tool).unwrap().entry().unwrap().lowered(target).unwrap().schema["properties"].clone()
}

#[tokio::test]
async fn null_of_an_optional_property_is_removed_in_strict_mode() {
    let properties = json!({"a": {"type": "integer"}, "n": {"type": "integer"}});
    let app = service(json!([echo("t", properties, &["a"])])).await;
    for vendor in OPENAI {
        let call = ended(&app, call_request("t", json!({"a": 1, "n": null}), Some(vendor))).await;
        assert_eq!((output(&call), &call.coerced), (r#"{"a":1}"#, &Vec::new()));
        assert_eq!(*call.arguments, json!({"a": 1, "n": null}));
        // The same model may have seen the other lowering.
        let call = ended(&app, call_request("t", json!({"a": 1, "n": 2}), Some(vendor))).await;
        assert_eq!(output(&call), r#"{"a":1,"n":2}"#);
    }
    for vendor in [None, Some(Vendor::Anthropic)] {
        let call = ended(&app, call_request("t", json!({"a": 1, "n": null}), vendor)).await;
        assert!(output(&call).contains("- /n: "), "{}", output(&call));
    }
}

#[tokio::test]
async fn only_real_violations_are_reported() {
    let properties = json!({"a": {"type": "integer"}, "n": {"type": "integer"}});
    let app = service(json!([echo("t", properties, &["a"])])).await;
    let call = ended(&app, call_request("t", json!({"a": {}, "n": null}), Some(Vendor::OpenAi))).await;
    assert!(output(&call).contains("- /a: ") && !output(&call).contains("- /n: "), "{}", output(&call));
}

#[tokio::test]
async fn numbers_of_a_list_are_restored_from_gemini() {
    let app = service(json!([echo("t", json!({"level": {"type": "integer", "enum": [1, 2, 3]}}), &["level"])])).await;
    assert_eq!(shown(&app, "t", Target::Gemini)["level"]["type"], "string");
    let call = ended(&app, call_request("t", json!({"level": "2"}), Some(Vendor::Gemini))).await;
    assert_eq!(output(&call), r#"{"level":2}"#);
}

#[tokio::test]
async fn name_that_anthropic_rejects_is_restored() {
    let app = service(json!([echo("t", json!({"the city": {"type": "string"}}), &["the city"])])).await;
    let properties = shown(&app, "t", Target::Anthropic);
    let name = properties.as_object().unwrap().keys().next().unwrap();
    assert_ne!(name, "the city");
    let call = ended(&app, call_request("t", json!({ name.as_str(): "Rome" }), Some(Vendor::Anthropic))).await;
    assert_eq!(output(&call), r#"{"the city":"Rome"}"#);
}

#[tokio::test]
async fn forwarded_call_is_restored() {
    let app = service(json!([echo("t", json!({"a": {"type": "string"}}), &["a"])])).await;
    let pairs = json!([{"key": "a", "value": "x"}]);
    assert_ne!(shown(&app, "call_tool", Target::OpenAiStrict)["arguments"]["type"], "object");
    let call =
        ended(&app, call_request("call_tool", json!({"name": "t", "arguments": pairs}), Some(Vendor::OpenAi))).await;
    assert_eq!((&*call.name, output(&call)), ("t", r#"{"a":"x"}"#));
}
