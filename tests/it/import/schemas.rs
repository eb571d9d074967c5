//! Schemas of documents that are difficult in JSON Schema or in JSON.

use serde_json::{Value, json};

use super::{app_and_server, names, of_paths};
use crate::support::shapes::{succeeded, violation};
use crate::support::{App, HttpTool};

/// Imports a document that is given as JSON text.
async fn import_text(app: &App, server: &HttpTool, document: &str) -> Value {
    let body = format!("{{\"document\": {document}, \"server\": \"{}\"}}", server.url(""));
    app.post_raw("/imports/openapi", body).await.ok()
}

fn with_body(schema: Value) -> Value {
    let body = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    of_paths(json!({"/x": {"post": {"operationId": "x", "requestBody": body}}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_beyond_64_bits_is_replaced_with_a_warning() {
    let schema =
        json!({"type": "object", "properties": {"seed": {"type": "integer", "minimum": "BOUND", "maximum": 5}}});
    let json = with_body(schema).to_string().replace("\"BOUND\"", "-9223372036854776000");
    let yaml = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\nservers: [{url: SERVER}]\npaths:\n  /x:\n    post:\n      \
                operationId: x\n      requestBody:\n        required: true\n        content:\n          \
                application/json:\n            schema: {type: object, properties: {seed: {type: integer, \
                minimum: -9223372036854776000, maximum: 5}}}\n";
    for is_yaml in [false, true] {
        let (app, server) = app_and_server().await;
        let report = if is_yaml {
            let text = yaml.replace("SERVER", &server.url(""));
            let request = app.request(reqwest::Method::POST, "/imports/openapi");
            let request = request.header("content-type", "application/yaml").body(text);
            crate::support::client::send(request).await.ok()
        } else {
            import_text(&app, &server, &json).await
        };
        assert_eq!(names(&report, "created"), ["x"], "{report}");
        let warning = report["warnings"][0]["message"].as_str().unwrap();
        assert!(warning.contains("-9223372036854776000 ") && warning.contains("-9223372036854775808"), "{warning}");
        let shown = app.get("/tools/x").await.ok();
        let seed = &shown["input_schema"]["properties"]["body"]["properties"]["seed"];
        assert_eq!(seed["minimum"], json!(i64::MIN));
        succeeded(&app.call("x", json!({"body": {"seed": i64::MIN}})).await);
        let call = app.call("x", json!({"body": {"seed": 6}})).await;
        assert_eq!(violation(&call)["keyword"], "maximum");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn value_beyond_64_bits_is_rejected() {
    for schema in [json!({"const": "BOUND"}), json!({"default": "BOUND"}), json!({"default": {"minimum": "BOUND"}})] {
        let (app, _server) = app_and_server().await;
        let text = with_body(schema).to_string().replace("\"BOUND\"", "-9223372036854776000");
        let problem = app.post_raw("/imports/openapi", text).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains("beyond 64 bits"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_reference_is_the_schema_around_it() {
    let filter = json!({"type": "object", "$recursiveAnchor": true, "required": ["op"], "properties": {
        "op": {"type": "string"}, "filters": {"type": "array", "items": {"$recursiveRef": "#"}}}});
    let mut named = with_body(json!({"$ref": "#/components/schemas/Filter"}));
    named["components"]["schemas"]["Filter"] = filter.clone();
    for document in [named, with_body(filter)] {
        let (app, server) = app_and_server().await;
        let report = import_text(&app, &server, &document.to_string()).await;
        assert_eq!(names(&report, "created"), ["x"], "{report}");
        succeeded(&app.call("x", json!({"body": {"op": "and", "filters": [{"op": "or"}]}})).await);
        let call = app.call("x", json!({"body": {"op": "and", "filters": [{"op": "or", "filters": [{}]}]}})).await;
        assert_eq!(violation(&call)["pointer"], "/body/filters/0/filters/0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn references_by_identity_and_anchor_are_followed_in_a_document() {
    let properties = json!({"a": {"$ref": "#size"}, "b": {"$ref": "https://example.com/color.json"},
        "c": {"$ref": "https://example.com/color.json#/$defs/shade"}});
    let mut document = with_body(json!({"type": "object", "properties": properties}));
    document["components"]["schemas"] = json!({"Size": {"$anchor": "size", "type": "integer"},
        "Color": {"$id": "https://example.com/color.json", "enum": ["red"], "$defs": {"shade": {"type": "boolean"}}}});
    let (app, server) = app_and_server().await;
    let report = import_text(&app, &server, &document.to_string()).await;
    assert_eq!(names(&report, "created"), ["x"], "{report}");
    succeeded(&app.call("x", json!({"body": {"a": 1, "b": "red", "c": true}})).await);
    for (name, value) in [("a", json!("x")), ("b", json!("blue")), ("c", json!(1.5))] {
        let call = app.call("x", json!({"body": {(name): value}})).await;
        assert_eq!(violation(&call)["pointer"], format!("/body/{name}"), "{call}");
    }
}
