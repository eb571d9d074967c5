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
async fn absent_property_has_its_default() {
    let properties = json!({"unit": {"type": "string", "default": "C"}, "n": {"type": "integer", "default": 0}});
    assert_eq!(received(properties, json!({})).await, json!({"unit": "C", "n": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn present_property_keeps_its_value() {
    let properties = json!({"unit": {"type": "string", "default": "C"}, "on": {"default": true}});
    assert_eq!(received(properties, json!({"unit": "", "on": false})).await, json!({"unit": "", "on": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_that_is_removed_has_its_default() {
    let properties = json!({"unit": {"type": "string", "default": "C"}});
    assert_eq!(received(properties, json!({"unit": null})).await, json!({"unit": "C"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_null_is_kept() {
    let properties = json!({"unit": {"type": ["string", "null"], "default": "C"}});
    assert_eq!(received(properties, json!({"unit": null})).await, json!({"unit": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn default_that_violates_its_schema_is_skipped() {
    let properties = json!({"a": {"type": "integer", "default": "none"}, "b": {"enum": ["x"], "default": null}});
    assert_eq!(received(properties, json!({})).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn present_object_has_the_defaults_of_its_properties() {
    let inner = json!({"type": "object", "properties": {"limit": {"type": "integer", "default": 10}}});
    assert_eq!(received(json!({"page": inner}), json!({"page": {}})).await, json!({"page": {"limit": 10}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn required_property_with_a_default_must_be_present() {
    let app = App::on_sqlite().await;
    let schema =
        json!({"type": "object", "properties": {"unit": {"type": "string", "default": "C"}}, "required": ["unit"]});
    app.echo_with("t", schema).await;
    let call = app.call("t", json!({})).await;
    assert!(failed(&call, "TOOL_VALIDATION_ERROR").contains("\"unit\""), "{call}");
}
