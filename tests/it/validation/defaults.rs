//! Defaults in schemas.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::shapes::failed;

async fn received(properties: Value, arguments: Value) -> Value {
    let app = App::on_sqlite().await;
    app.echo_of("t", properties).await;
    app.call("t", arguments).await["structured"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_property_has_its_default() {
    let properties = json!({"unit": {"type": "string", "default": "C"}, "n": {"type": "integer", "default": 0}});
    assert_eq!(received(properties, json!({})).await, json!({"unit": "C", "n": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_property_keeps_its_value() {
    let properties = json!({"unit": {"type": "string", "default": "C"}, "on": {"default": true}});
    assert_eq!(received(properties, json!({"unit": "", "on": false})).await, json!({"unit": "", "on": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_that_became_absent_has_its_default() {
    let properties = json!({"unit": {"type": "string", "default": "C"}});
    assert_eq!(received(properties, json!({"unit": null})).await, json!({"unit": "C"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_that_is_allowed_is_no_absence() {
    let properties = json!({"unit": {"type": ["string", "null"], "default": "C"}});
    assert_eq!(received(properties, json!({"unit": null})).await, json!({"unit": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_that_breaks_its_own_schema_is_left_out() {
    let properties = json!({"a": {"type": "integer", "default": "none"}, "b": {"enum": ["x"], "default": null}});
    assert_eq!(received(properties, json!({})).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_object_has_the_defaults_of_its_properties() {
    let inner = json!({"type": "object", "properties": {"limit": {"type": "integer", "default": 10}}});
    assert_eq!(received(json!({"page": inner}), json!({"page": {}})).await, json!({"page": {"limit": 10}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_property_must_be_given_even_if_it_has_a_default() {
    let app = App::on_sqlite().await;
    let schema =
        json!({"type": "object", "properties": {"unit": {"type": "string", "default": "C"}}, "required": ["unit"]});
    app.echo_with("t", schema).await;
    let call = app.call("t", json!({})).await;
    assert!(failed(&call, "TOOL_VALIDATION_ERROR").contains("\"unit\""), "{call}");
}
