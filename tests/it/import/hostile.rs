//! Hostile documents: they or their operations are rejected with a reason.

use serde_json::{Value, json};
use toolpost::import::document::{self, Bounds};
use toolpost::import::{ImportPlan, Options, openapi};

use super::of_paths;

fn imported(document: &Value) -> ImportPlan {
    openapi(document, &Options { server: Some("https://h.example".into()), ..Options::default() }).unwrap()
}

/// Returns the reason why the only operation is rejected.
fn reason(operation: Value, components: Value) -> String {
    let mut document = of_paths(json!({"/x": {"post": operation}}));
    document["components"] = components;
    let mut imported = imported(&document);
    assert_eq!((imported.offered.len(), imported.refused.len()), (0, 1));
    imported.refused.remove(0).reason
}

fn body(schema: Value) -> Value {
    json!({"requestBody": {"content": {"application/json": {"schema": schema}}}})
}

#[test]
fn circles_end() {
    let circle = json!({"schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        "parameters": {"P": {"$ref": "#/components/parameters/P"}}, "requestBodies": {"R": {"$ref": "#/components/requestBodies/R"}}});
    let refusal = reason(body(json!({"$ref": "#/components/schemas/A"})), circle.clone());
    assert!(refusal.contains("itself"), "{refusal}");
    let refusal = reason(json!({"parameters": [{"$ref": "#/components/parameters/P"}]}), circle.clone());
    assert!(refusal.contains("refers to itself"), "{refusal}");
    let refusal = reason(json!({"requestBody": {"$ref": "#/components/requestBodies/R"}}), circle);
    assert!(refusal.contains("refers to itself"), "{refusal}");
}

#[test]
fn multiplying_references_are_bounded() {
    let doubled = |at: u32| json!({"allOf": [{"$ref": format!("#/components/schemas/S{}", at + 1)}, {"$ref": format!("#/components/schemas/S{}", at + 1)}]});
    let mut schemas: serde_json::Map<String, Value> = (0..30).map(|at| (format!("S{at}"), doubled(at))).collect();
    schemas.insert("S30".into(), json!({"type": "object"}));
    let refusal = reason(body(json!({"$ref": "#/components/schemas/S0"})), json!({"schemas": schemas}));
    assert!(refusal.contains("10000") || refusal.contains("32 schemas"), "{refusal}");
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let refusal = reason(body(json!({"type": "object", "properties": wide})), json!({}));
    assert!(refusal.contains("KiB") || refusal.contains("10000 nodes"), "{refusal}");
}

/// Checks the limit on the total: each operation alone is within its limits.
#[test]
fn total_import_is_bounded() {
    let text = "x".repeat(60_000);
    let properties: serde_json::Map<String, Value> =
        (0..4).map(|at| (format!("p{at}"), json!({"description": text}))).collect();
    let paths: serde_json::Map<String, Value> = (0..400)
        .map(|at| (format!("/{at}"), json!({"post": body(json!({"$ref": "#/components/schemas/Big"}))})))
        .collect();
    let mut document = of_paths(Value::Object(paths));
    document["components"]["schemas"]["Big"] = json!({"type": "object", "properties": properties});
    let imported = imported(&document);
    assert!(imported.offered.len() > 50 && imported.refused.len() > 50);
    assert!(imported.refused.iter().all(|refused| refused.reason.contains("`only`")), "{:?}", imported.refused[0]);
}

#[test]
fn too_many_operations_require_a_selection() {
    let paths: serde_json::Map<String, Value> = (0..2500)
        .map(|at| {
            (format!("/{at}"), json!({"get": {"operationId": "same", "tags": [if at < 100 { "few" } else { "many" }]}}))
        })
        .collect();
    let document = of_paths(Value::Object(paths));
    let server = Some("https://h.example".to_owned());
    let error = openapi(&document, &Options { server: server.clone(), ..Options::default() }).unwrap_err();
    assert_eq!(error.option, Some("only"));
    let few = openapi(&document, &Options { server, only: vec!["few".into()], ..Options::default() }).unwrap();
    let names: std::collections::BTreeSet<&str> =
        few.offered.iter().map(|tool| tool.definition.name.as_str()).collect();
    assert_eq!((names.len(), names.contains("same_100")), (100, true));
}

#[test]
fn deepest_document_is_walked() {
    let mut schema = json!({"type": "string"});
    for _ in 0..55 {
        schema = json!({"type": "array", "items": schema});
    }
    let fits = of_paths(json!({"/x": {"post": body(schema.clone())}}));
    assert_eq!(imported(&fits).offered.len(), 1);
    for _ in 0..200 {
        schema = json!({"not": {"items": schema}});
    }
    let refusal = reason(body(schema), json!({}));
    assert!(refusal.contains("levels"), "{refusal}");
}

#[test]
fn members_of_the_wrong_type_are_reported() {
    for (operation, expected) in [
        (json!({"parameters": {}}), "`parameters` must be an array, not object"),
        (json!({"parameters": ["x"]}), "a parameter must be an object, not string"),
        (json!({"parameters": [{"in": "query"}]}), "no `name`"),
        (json!({"parameters": [{"name": "a"}]}), "a has no `in`"),
        (json!({"parameters": [{"name": "a", "in": "body?"}]}), "`in` \"body?\""),
        (
            json!({"parameters": [{"name": "a", "in": "query", "required": true, "style": 5}]}),
            "`style` must be a string",
        ),
        (
            json!({"parameters": [{"name": "a", "in": "query", "required": true, "schema": []}]}),
            "a schema must be an object",
        ),
        (json!({"requestBody": []}), "`requestBody` must be an object"),
        (json!({"requestBody": {}}), "no `content`"),
        (json!({"requestBody": {"content": {}}}), "no media type"),
        (json!({"requestBody": {"content": {"application/json": 5}}}), "a media type must be an object"),
        (body(json!({"type": "banana"})), "banana"),
        (body(json!({"type": "dict"})), ""),
        (body(json!({"type": "object", "required": 5})), "required"),
        (body(json!({"type": "object", "required": "a"})), ""),
        (body(json!({"$ref": "file:///etc/passwd"})), "nothing is fetched"),
        (json!({"security": {}}), "`security` must be an array"),
        (json!({"security": [5]}), "security requirement must be an object"),
        (json!({"servers": [{"url": "ftp://h"}]}), ""),
    ] {
        let document = of_paths(json!({"/x": {"post": operation}}));
        let made = imported(&document);
        match expected {
            "" => assert_eq!(made.offered.len(), 1),
            _ => assert!(made.refused[0].reason.contains(expected), "{operation}: {}", made.refused[0].reason),
        }
    }
    // An invalid response schema does not reject the operation.
    let odd = imported(&of_paths(
        json!({"/x": {"get": {"responses": {"200": {"content": {"application/json": {"schema": 5}}}}}}}),
    ));
    assert!(odd.offered[0].definition.output_schema.is_none() && odd.warnings[0].message.contains("no output schema"));
}

/// Checks that reading a broken document ends, and quickly.
#[test]
fn mutated_document_is_read_or_rejected() {
    for name in ["petshop.yaml", "swagger-2.0.yaml", "openapi-3.0.yaml", "openapi-3.1.json"] {
        let text = super::text(name);
        for at in (0..text.len()).step_by(97).filter(|at| text.is_char_boundary(*at)) {
            let cut = text[..at].to_owned();
            let bent = format!("{}{}", &text[..at], text[at..].replacen([':', '"', '{'], "", 1));
            for broken in [cut, bent] {
                if let Ok(value) = document::parse(broken.as_bytes(), Bounds::SENT) {
                    let _ =
                        openapi(&value, &Options { server: Some("https://h.example".into()), ..Options::default() });
                }
            }
        }
    }
}
