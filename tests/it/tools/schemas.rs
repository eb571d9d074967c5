//! Schemas that are rejected at registration, and some that must be accepted.

use serde_json::{Map, Value, json};

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::shapes::{points_at, succeeded, violation};
use crate::support::{Answer, App, HttpTool};

/// Checks that the schema is rejected at `/input_schema` and that the tool is not created.
async fn refused(app: &App, schema: Value) {
    let problem = app.post("/tools", &echo_tool("mine", schema)).await.problem(422);
    points_at(&problem, "/input_schema");
    app.get("/tools/mine").await.problem(404);
}

fn object_with(property: Value) -> Value {
    json!({"type": "object", "properties": {"a": property}})
}

/// Returns `levels` nested schemas, each in `items` of the previous one.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({"items": inner}))
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_schema_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    let problem = app.post("/tools", &echo_tool("mine", object_with(json!({"type": "nonsense"})))).await.problem(422);
    points_at(&problem, "/input_schema/properties/a");
    refused(&app, object_with(json!({"minimum": "five"}))).await;
    refused(&app, object_with(json!({"$ref": "#/$defs/missing"}))).await;
    refused(&app, object_with(json!({"pattern": "("}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unambiguous_schema_is_corrected_on_request() {
    let app = App::on_sqlite().await;
    let sloppy = echo_tool("sloppy", json!({"properties": {"id": {"type": "str", "required": true}}}));
    app.post("/tools", &sloppy).await.problem(422);
    app.post("/tools?mend=false", &sloppy).await.problem(422);
    let answer = app.post("/tools?mend=true", &sloppy).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let schema = json!({"properties": {"id": {"type": "string"}}, "type": "object", "required": ["id"]});
    assert_eq!(answer.json["input_schema"], schema);
    let warnings = answer.json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().all(|warning| warning.as_str().unwrap().starts_with("input_schema ")), "{warnings:?}");
    succeeded(&app.call("sloppy", json!({"id": "x"})).await);
    let replaced = app.put("/tools/sloppy?mend=true", &sloppy).await.ok();
    assert_eq!(replaced["input_schema"], schema);
    let hopeless = echo_tool("mine", object_with(json!({"type": "banana"})));
    points_at(&app.post("/tools?mend=true", &hopeless).await.problem(422), "/input_schema/properties/a");
}

#[tokio::test(flavor = "multi_thread")]
async fn root_must_be_an_object() {
    let app = App::on_sqlite().await;
    for schema in [json!({"type": "array"}), json!({"type": "string"}), json!([]), json!("object"), json!(5)] {
        refused(&app, schema).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_output_schema_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    let mut tool = echo_tool("mine", json!({"type": "object"}));
    tool["output_schema"] = json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}});
    points_at(&app.post("/tools", &tool).await.problem(422), "/output_schema");
}

#[tokio::test(flavor = "multi_thread")]
async fn external_references_are_rejected() {
    let app = App::on_sqlite().await;
    for target in ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "/etc/passwd", "urn:x:y"] {
        refused(&app, object_with(json!({"$ref": target}))).await;
    }
    refused(&app, json!({"type": "object", "$defs": {"unused": {"$ref": "https://example.com/a.json"}}})).await;
}

/// Returns a schema whose references use its own ids and anchors.
fn self_contained() -> Value {
    json!({
        "$id": "https://example.com/s.json", "type": "object",
        "properties": {
            "whole": {"$ref": "https://example.com/s.json#/$defs/count"},
            "relative": {"$ref": "s.json#/$defs/count"},
            "anchor": {"$ref": "https://example.com/s.json#named"},
            "embedded": {"$ref": "inner/part.json"},
            "within": {"$ref": "inner/part.json#/$defs/deep"},
            "inner_anchor": {"$ref": "inner/part.json#deep"},
        },
        "$defs": {
            "count": {"type": "integer"},
            "named": {"$anchor": "named", "type": "integer"},
            "part": {
                "$id": "inner/part.json", "$ref": "#deep",
                "$defs": {"deep": {"$anchor": "deep", "$ref": "../s.json#/$defs/count"}},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn references_inside_a_schema_are_resolved() {
    let app = App::on_sqlite().await;
    let made = app.post("/tools", &echo_tool("mine", self_contained())).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json["input_schema"], self_contained(), "it is shown as it was given");
    for name in ["whole", "relative", "anchor", "embedded", "within", "inner_anchor"] {
        assert_eq!(succeeded(&app.call("mine", json!({(name): "5"})).await), json!({(name): 5}).to_string());
        let call = app.call("mine", json!({(name): "x"})).await;
        assert_eq!(violation(&call)["pointer"], format!("/{name}"));
    }
    for format in ["openai", "openai-responses", "openai-strict", "anthropic", "gemini"] {
        let list = app.get(&format!("/tools?format={format}&q=mine")).await.ok();
        let text = list["tools"].to_string();
        assert!(!text.contains("$ref") && !text.contains("example.com"), "{format}: {text}");
        assert!(text.contains("\"inner_anchor\":{\"type\":"), "{format}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_beyond_64_bits_is_replaced_with_a_warning() {
    let app = App::on_sqlite().await;
    let tool =
        |schema: Value| echo_tool("mine", object_with(schema)).to_string().replace("\"BOUND\"", "-9223372036854776000");
    let text = tool(json!({"type": "integer", "minimum": "BOUND", "maxLength": "BOUND"}));
    let text = text.replace("\"maxLength\":-9223372036854776000", "\"maxLength\":99999999999999999999");
    let made = app.post_raw("/tools", text.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json["input_schema"]["properties"]["a"]["minimum"], json!(i64::MIN));
    assert_eq!(made.json["input_schema"]["properties"]["a"]["maxLength"], json!(i64::MAX));
    let warnings = made.json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2);
    let location = "/input_schema/properties/a/minimum";
    assert!(warnings[0].as_str().unwrap().contains(location), "{warnings:?}");
    succeeded(&app.call("mine", json!({"a": i64::MIN})).await);
    assert_eq!(app.get("/tools/mine").await.ok().get("warnings"), None);
    let put = app.request(reqwest::Method::PUT, "/tools/mine").header("content-type", "application/json").body(text);
    assert_eq!(send(put).await.ok()["warnings"].as_array().unwrap().len(), 2);
    for schema in [
        json!({"const": "BOUND"}),
        json!({"enum": ["BOUND"]}),
        json!({"default": "BOUND"}),
        json!({"multipleOf": "BOUND"}),
        json!({"examples": [{"minimum": "BOUND"}]}),
    ] {
        let problem = app.post_raw("/tools", tool(schema)).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains("beyond 64 bits"), "{problem}");
    }
    let elsewhere = echo_tool("mine", json!({"type": "object"})).to_string();
    let elsewhere = elsewhere.replacen('{', "{\"minimum\":-9223372036854776000,", 1);
    app.post_raw("/tools", elsewhere).await.problem(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_is_never_fetched() {
    let app = App::with_egress(crate::support::Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::json(&json!({"type": "string"}))).await;
    refused(&app, object_with(json!({"$ref": server.url("/schema.json")}))).await;
    refused(&app, json!({"$schema": server.url("/meta.json"), "type": "object"})).await;
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_over_256_kib_is_rejected() {
    let app = App::on_sqlite().await;
    refused(&app, object_with(json!({"description": "d".repeat(257 * 1024)}))).await;
    app.echo_with("mine", object_with(json!({"description": "d".repeat(250 * 1024)}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_over_64_levels_is_rejected() {
    let app = App::on_sqlite().await;
    refused(&app, object_with(nested(70))).await;
    app.echo_with("mine", object_with(nested(55))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_over_10_000_nodes_is_rejected() {
    let app = App::on_sqlite().await;
    let properties =
        |count: usize| -> Map<String, Value> { (0..count).map(|n| (format!("p{n}"), json!({}))).collect() };
    refused(&app, json!({"type": "object", "properties": properties(10_001)})).await;
    app.echo_with("mine", json!({"type": "object", "properties": properties(2_000)})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exponential_schemas_are_rejected() {
    let app = App::on_sqlite().await;
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let mut definitions = Map::new();
        for level in 0..20 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({keyword: [next, next]}));
        }
        definitions.insert("d20".into(), json!({"type": "integer"}));
        let root = json!({"$ref": "#/$defs/d0"});
        refused(&app, json!({"type": "object", "properties": {"a": root}, "$defs": definitions})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn self_referencing_schema_is_rejected() {
    let app = App::on_sqlite().await;
    refused(&app, json!({"type": "object", "allOf": [{"$ref": "#"}]})).await;
    let circle = json!({"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}});
    refused(&app, json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": circle})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_can_refer_to_itself_through_its_branches() {
    let app = App::on_sqlite().await;
    let node = json!({"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}}});
    app.echo_with("tree", node).await;
    succeeded(&app.call("tree", json!({"value": 1, "children": [{"value": 2, "children": []}]})).await);
    let bad = app.call("tree", json!({"children": [{"children": [{"value": "x"}]}]})).await;
    assert_eq!(bad["error"]["details"]["validation_errors"][0]["pointer"], "/children/0/children/0/value");
}

#[tokio::test(flavor = "multi_thread")]
async fn exponential_patterns_are_rejected() {
    let app = App::on_sqlite().await;
    for pattern in ["(a{1000}){1000}", "((a{100}){100}){100}", "(?=a)(a{1000}){1000}", "(?<!a"] {
        refused(&app, object_with(json!({"type": "string", "pattern": pattern}))).await;
    }
    refused(&app, json!({"type": "object", "patternProperties": {"^(?=a": {}}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_repetition_is_rejected_or_harmless() {
    let app = App::on_sqlite().await;
    let tool = echo_tool("mine", object_with(json!({"type": "string", "pattern": "^(a+)+$"})));
    let answer = app.post("/tools", &tool).await;
    if answer.status == 201 {
        let evil = format!("{}!", "a".repeat(50_000));
        assert_eq!(app.call("mine", json!({"a": evil})).await["error"]["code"], "TOOL_VALIDATION_ERROR");
    } else {
        answer.problem(422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dialect_is_2020_12_by_default() {
    let app = App::on_sqlite().await;
    let pair = json!([{"type": "string"}, {"type": "integer"}]);
    let mut old = object_with(json!({"type": "array", "items": pair}));
    old["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    app.echo_with("old", old).await;
    app.echo_with("new", object_with(json!({"type": "array", "prefixItems": pair}))).await;
    for name in ["old", "new"] {
        succeeded(&app.call(name, json!({"a": ["x", 1]})).await);
        assert_eq!(app.call(name, json!({"a": ["x", {}]})).await["error"]["code"], "TOOL_VALIDATION_ERROR", "{name}");
    }
    refused(&app, object_with(json!({"type": "array", "items": pair}))).await;
}
