//! Coercion of wrong argument types; correct arguments stay unchanged.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::shapes::violation;

/// Starts a service with a tool that has one property `a` with this schema.
async fn tool(property: Value) -> App {
    let app = App::on_sqlite().await;
    app.echo_of("t", json!({"a": property})).await;
    app
}

/// Checks that each given value is coerced to the other and listed.
async fn mends(property: Value, to: &str, cases: &[(Value, Value)]) {
    let app = tool(property).await;
    for (given, mended) in cases {
        let call = app.call("t", json!({"a": given})).await;
        assert_eq!(call["structured"], json!({"a": mended}), "{call:#}");
        assert_eq!(call["arguments"], json!({"a": given}));
        assert_eq!(call["coerced"], json!([{"pointer": "/a", "from": "string", "to": to}]), "{given}");
    }
}

/// Checks that each value is accepted unchanged.
async fn leaves(property: Value, values: &[Value]) {
    let app = tool(property).await;
    for value in values {
        let call = app.call("t", json!({"a": value})).await;
        assert_eq!((&call["structured"], &call["coerced"]), (&json!({"a": value}), &json!([])), "{call:#}");
    }
}

/// Checks that each value is rejected.
async fn refuses(property: Value, values: &[Value]) {
    let app = tool(property).await;
    for value in values {
        let call = app.call("t", json!({"a": value})).await;
        assert_eq!(call["error"]["code"], "TOOL_VALIDATION_ERROR", "{value}: {call:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn number_without_a_fraction_becomes_the_integer() {
    let cases =
        [("5.0", json!(5)), ("5e0", json!(5)), ("-1.50e2", json!(-150)), ("18446744073709551615.0", json!(u64::MAX))];
    let cases = cases.map(|(given, integer)| (json!(given), integer));
    mends(json!({"type": "integer"}), "integer", &cases).await;
    refuses(json!({"type": "integer"}), &["5.5", "1e300", "1e20", "1e999999999999"].map(|given| json!(given))).await;
    mends(json!({"type": "number"}), "number", &[(json!("5.0"), json!(5.0))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn true_and_false_texts_become_booleans() {
    let cases = [("true", true), ("False", false), (" TRUE ", true), ("\tfalse\n", false)];
    mends(json!({"type": "boolean"}), "boolean", &cases.map(|(given, mended)| (json!(given), json!(mended)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_values_do_not_become_booleans() {
    refuses(json!({"type": "boolean"}), &[json!("yes"), json!("1"), json!(""), json!(1), json!(0)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numeric_string_becomes_a_number() {
    let cases = [("42", json!(42)), (" -7 ", json!(-7)), ("9223372036854775807", json!(i64::MAX))];
    mends(json!({"type": "integer"}), "integer", &cases.map(|(given, mended)| (json!(given), mended))).await;
    let cases = [("3.5", json!(3.5)), ("1e3", json!(1e3)), (" 0.25\n", json!(0.25))];
    mends(json!({"type": "number"}), "number", &cases.map(|(given, mended)| (json!(given), mended))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn string_that_is_no_json_number_is_unchanged() {
    let bad = ["", " ", "0x10", "1,000", "+5", "05", "NaN", "Infinity", "1.", ".5", "five", "1 2"].map(|s| json!(s));
    refuses(json!({"type": "number"}), &bad).await;
    refuses(json!({"type": "integer"}), &[json!("3.7"), json!(3.7), json!("123456789012345678901234567891")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_string_becomes_the_required_array_or_object() {
    let array = json!({"type": "array", "items": {"type": "integer"}});
    mends(array.clone(), "array", &[(json!("[1, 2]"), json!([1, 2]))]).await;
    refuses(array, &[json!("{\"a\":1}"), json!("1,2"), json!("[1"), json!("")]).await;
    let object = json!({"type": "object", "required": ["x"]});
    mends(object.clone(), "object", &[(json!("{\"x\": \"y\"}"), json!({"x": "y"}))]).await;
    refuses(object, &[json!("[]"), json!("{}"), json!("{\"x\"")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn null_for_an_optional_property_becomes_absent() {
    let app = tool(json!({"type": "integer"})).await;
    let call = app.call("t", json!({"a": null, "b": null})).await;
    assert_eq!(call["structured"], json!({"b": null}));
    assert_eq!(call["coerced"].as_array().unwrap().len(), 1);
    assert_eq!((&call["coerced"][0]["pointer"], &call["coerced"][0]["from"]), (&json!("/a"), &json!("null")));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_never_becomes_a_value() {
    let app = App::on_sqlite().await;
    for kind in ["integer", "number", "boolean", "string", "array", "object"] {
        let name = format!("needs_{kind}");
        let schema = json!({"type": "object", "properties": {"a": {"type": kind}}, "required": ["a"]});
        app.echo_with(&name, schema).await;
        assert_eq!(app.call(&name, json!({"a": null})).await["error"]["code"], "TOOL_VALIDATION_ERROR", "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_stays_if_the_schema_allows_it() {
    leaves(json!({"type": ["integer", "null"]}), &[json!(null), json!(1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn string_stays_if_the_schema_allows_it() {
    let strings = ["42", "true", "[1]", "{}", "null"].map(|text| json!(text));
    leaves(json!({"type": "string"}), &strings).await;
    leaves(json!({"type": ["integer", "string"]}), &strings).await;
    leaves(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), &strings).await;
    leaves(json!({}), &strings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_coerced_to_a_string() {
    refuses(json!({"type": "string"}), &[json!(5), json!(true), json!([]), json!({})]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_branch_that_accepts_the_coerced_value_is_used() {
    let either = json!([{"type": "boolean"}, {"type": "integer", "minimum": 10}, {"type": "number"}]);
    for keyword in ["anyOf", "oneOf"] {
        let app = tool(json!({keyword: either})).await;
        let mended = async |given: &str| app.call("t", json!({"a": given})).await["structured"]["a"].clone();
        assert_eq!(mended("true").await, json!(true), "{keyword}");
        assert_eq!(mended("2.5").await, json!(2.5), "{keyword}");
    }
    let app = tool(json!({"anyOf": either})).await;
    assert_eq!(app.call("t", json!({"a": "12"})).await["structured"], json!({"a": 12}));
}

#[tokio::test(flavor = "multi_thread")]
async fn value_that_would_stay_invalid_is_not_coerced() {
    refuses(json!({"type": "integer", "maximum": 10}), &[json!("42")]).await;
    let app = tool(json!({"type": "integer", "maximum": 10})).await;
    let call = app.call("t", json!({"a": "42"})).await;
    assert_eq!(violation(&call)["pointer"], "/a");
    assert_eq!(call["error"]["details"]["received"], json!({"a": "42"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_values_are_mended_each_with_its_pointer() {
    let app = App::on_sqlite().await;
    let item = json!({"type": "object", "properties": {"on/off": {"type": "boolean"}}});
    app.echo_of("t", json!({"list": {"type": "array", "items": item}})).await;
    let call = app.call("t", json!({"list": [{"on/off": "true"}, {"on/off": false}, {"on/off": "no"}]})).await;
    assert_eq!(violation(&call)["pointer"], "/list/2/on~1off");
    let call = app.call("t", json!({"list": [{"on/off": true}, {"on/off": "false"}]})).await;
    assert_eq!(call["structured"], json!({"list": [{"on/off": true}, {"on/off": false}]}));
    assert_eq!(call["coerced"], json!([{"pointer": "/list/1/on~1off", "from": "string", "to": "boolean"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_can_disable_coercion() {
    let app = App::on_sqlite().await;
    let mut strict = crate::support::app::echo_tool(
        "t",
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}}),
    );
    strict["coerce"] = json!(false);
    app.register(strict).await;
    for arguments in [json!({"a": "5"}), json!({"b": "true"})] {
        assert_eq!(app.call("t", arguments).await["error"]["code"], "TOOL_VALIDATION_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_values_next_to_a_coerced_one_are_unchanged() {
    let app = App::on_sqlite().await;
    app.echo_of("t", json!({"n": {"type": "integer"}, "s": {"type": "string"}})).await;
    let call = app.call("t", json!({"n": "5", "s": "5", "free": "5"})).await;
    assert_eq!(call["structured"], json!({"n": 5, "s": "5", "free": "5"}));
}
