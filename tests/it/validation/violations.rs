//! Violations as the model reads them.

use serde_json::{Map, Value, json};

use crate::support::shapes::{failed, violation, violations};
use crate::support::{App, Backend};

fn weather() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["city"],
        "properties": {
            "city": {"type": "string", "maxLength": 100},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "address": {"type": "object", "required": ["street"], "properties": {"street": {"type": "string"}}},
        },
    })
}

/// Registers a tool with this schema and calls it.
async fn called(schema: Value, arguments: Value) -> Value {
    let app = App::on_sqlite().await;
    app.echo_with("t", schema).await;
    app.call("t", arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn text_has_one_line_per_violation() {
    let call = called(weather(), json!({"city": 5, "unit": "kelvin", "days": 99})).await;
    let mut expected = "Error: Invalid parameters for tool \"t\"".to_owned();
    for violation in violations(&call) {
        let (pointer, message) = (violation["pointer"].as_str().unwrap(), violation["message"].as_str().unwrap());
        expected.push_str(&format!("\n- {pointer}: {message}"));
    }
    assert_eq!(failed(&call, "TOOL_VALIDATION_ERROR"), expected);
    assert_eq!(violations(&call).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn violation_names_its_pointer_keyword_and_expectation() {
    let call = called(weather(), json!({"city": "Rome", "days": 99})).await;
    let violation = violation(&call);
    assert_eq!((&violation["pointer"], &violation["keyword"]), (&json!("/days"), &json!("maximum")));
    assert!(violation["message"].is_string() && !violation["expected"].is_null(), "{violation}");
}

#[tokio::test(flavor = "multi_thread")]
async fn details_have_the_received_and_expected_values() {
    let call = called(weather(), json!({"days": 1})).await;
    let details = &call["error"]["details"];
    assert_eq!(details["received"], json!({"days": 1}));
    assert_eq!(details["expected_schema"]["required"], json!(["city"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_property_has_the_pointer_of_its_object_and_is_named() {
    let call = called(weather(), json!({})).await;
    let root = violation(&call);
    assert_eq!((&root["pointer"], &root["property"]), (&json!(""), &json!("city")));
    assert_eq!(root["keyword"], "required");
    let call = called(weather(), json!({"city": "Rome", "address": {}})).await;
    let nested = violation(&call);
    assert_eq!((&nested["pointer"], &nested["property"]), (&json!("/address"), &json!("street")));
}

#[tokio::test(flavor = "multi_thread")]
async fn unexpected_property_is_named_with_the_nearest_one() {
    let call = called(weather(), json!({"city": "Rome", "dayz": 3})).await;
    let violation = violation(&call);
    assert_eq!((&violation["pointer"], &violation["property"]), (&json!(""), &json!("dayz")));
    assert_eq!(violation["keyword"], "additionalProperties");
    let message = violation["message"].as_str().unwrap().to_lowercase();
    assert!(message.contains("did you mean") && message.contains("days"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn misspelt_enum_value_is_named_with_the_nearest_one() {
    let call = called(weather(), json!({"city": "Rome", "unit": "celsuis"})).await;
    let violation = violation(&call);
    assert_eq!((&violation["pointer"], &violation["keyword"]), (&json!("/unit"), &json!("enum")));
    let message = violation["message"].as_str().unwrap().to_lowercase();
    assert!(message.contains("did you mean") && message.contains("celsius"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_exclusive_properties_of_forms_are_named() {
    let forms = json!([{"required": ["id"]}, {"required": ["name"]}]);
    for (keyword, arguments, message) in [
        ("anyOf", json!({}), "needs `id` or `name`"),
        ("oneOf", json!({}), "needs `id` or `name`"),
        ("oneOf", json!({"id": 1, "name": "n"}), "`id` and `name` are mutually exclusive: give only one of them"),
    ] {
        let properties = json!({"id": {"type": "integer"}, "name": {"type": "string"}});
        let call = called(json!({"type": "object", "properties": properties, keyword: forms}), arguments).await;
        let violation = violation(&call);
        assert_eq!((&violation["pointer"], &violation["keyword"]), (&json!(""), &json!(keyword)));
        assert_eq!((&violation["message"], violation["expected"].is_null()), (&json!(message), false));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_first_twenty_violations_are_reported() {
    let properties: Map<String, Value> = (0..30).map(|n| (format!("p{n}"), json!({"type": "integer"}))).collect();
    let arguments: Map<String, Value> = (0..30).map(|n| (format!("p{n}"), json!("no"))).collect();
    let call = called(json!({"type": "object", "properties": properties}), arguments.into()).await;
    assert_eq!(violations(&call).len(), 20);
    assert_eq!(call["output"].as_str().unwrap().matches("\n- ").count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn violation_is_short_for_any_value() {
    let long = "😀".repeat(10_000);
    let call = called(weather(), json!({"city": long, "unit": long, "days": long, (long.as_str()): 1})).await;
    for violation in violations(&call) {
        assert!(violation["message"].as_str().unwrap().len() < 500, "{violation}");
        assert!(violation.to_string().len() < 2000, "{violation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pointers_are_escaped_by_rfc_6901() {
    let call = called(
        json!({"type": "object", "properties": {"a/b~c": {"type": "array", "items": {"type": "integer"}}}}),
        json!({"a/b~c": [1, "x"]}),
    )
    .await;
    assert_eq!(violation(&call)["pointer"], "/a~1b~0c/1");
}

#[tokio::test(flavor = "multi_thread")]
async fn formats_are_asserted() {
    for (format, good, bad) in [
        ("email", "a@example.com", "a at example"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T12:00:00Z", "yesterday"),
        ("uuid", "0197a1b2-0000-7000-8000-000000000000", "0197"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("uri", "https://example.com/a", "not a uri"),
        ("idn-email", "jürgen@müller.example", "jürgen at müller"),
        ("idn-hostname", "bücher.example", "-bücher-.example"),
    ] {
        let app = App::on_sqlite().await;
        app.echo_of("t", json!({"a": {"type": "string", "format": format}})).await;
        assert_eq!(app.call("t", json!({"a": good})).await["status"], "SUCCESS", "{format}");
        let call = app.call("t", json!({"a": bad})).await;
        assert_eq!(violation(&call)["keyword"], "format", "{format}");
    }
}

on_both_databases!(
    async fn hard_texts_in_arguments_survive_their_refusal(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_with("t", weather()).await;
        let arguments = json!({"city": 5, "\u{0}😀": "a\u{0}b"});
        let call = app.call("t", arguments.clone()).await;
        assert_eq!(violations(&call).len(), 2);
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        assert_eq!(call["arguments"], arguments);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_call_never_runs() {
    let call = called(weather(), json!({})).await;
    assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
}
