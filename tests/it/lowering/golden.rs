//! Golden cases: characteristic schemas, lowered for each vendor.

use serde_json::{Value, json};

use toolpost::schema::portable;

use super::*;
use crate::support::fixture::same_as_file;

#[test]
fn characteristic_schemas_lower_as_they_were_written_down() {
    for (name, schema) in cases() {
        compiled(&schema);
        let mut found = json!({ "original": schema });
        for target in TARGETS {
            let lowered = lower(&schema, target).unwrap();
            checker::check(target, &lowered.schema);
            found[format!("{target:?}")] = json!({ "schema": lowered.schema, "losses": lowered.losses });
        }
        let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
        let how = "UPDATE_FIXTURES=1 cargo test --test it lowering";
        same_as_file(&format!("tests/fixtures/lower/{name}.json"), &text, how);
    }
}

/// The schemas of the same cases as lists over MCP show them, and those of further cases that single clients refuse.
#[test]
fn characteristic_schemas_match_the_golden_file_over_mcp() {
    let refused = [
        (
            "any of two",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ),
        (
            "conditions",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "if": {"required": ["a"]}, "then": {"required": ["b"]}, "not": {"required": ["c"]}}),
        ),
        (
            "reference at the root",
            json!({"$ref": "#/definitions/A", "type": "object",
            "definitions": {"A": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}}),
        ),
        (
            "draft 4",
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
            "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}, "l": {"type": "array"}}}),
        ),
        ("no properties", json!({"type": "object"})),
        ("names", json!({"type": "object", "properties": {"$top": {"type": "integer"}, "名前": {"type": "string"}}})),
        ("booleans", json!({"type": "object", "properties": {"any": true, "none": false}})),
    ];
    let listed = |(name, schema): (&str, Value)| (name.to_owned(), portable::input(&schema).unwrap_or(schema));
    let found: Value = cases().into_iter().chain(refused).map(listed).collect();
    for schema in found.as_object().unwrap().values() {
        compiled(schema);
    }
    let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
    same_as_file("tests/fixtures/lower/mcp.json", &text, "UPDATE_FIXTURES=1 cargo test --test it lowering");
}

fn cases() -> Vec<(&'static str, Value)> {
    vec![
        (
            "plain",
            json!({
                "type": "object", "required": ["text"], "additionalProperties": false, "properties": {
                    "text": {"type": "string", "minLength": 1, "maxLength": 80, "description": "What to say."},
                    "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "default": 3},
                    "mode": {"enum": ["fast", "slow"]},
                    "level": {"enum": [1, 2, 3]},
                    "at": {"type": "string", "format": "date-time"},
                    "link": {"type": "string", "format": "uri"},
                },
            }),
        ),
        (
            "pydantic",
            json!({
                "$defs": {"Node": {"type": "object", "title": "Node", "required": ["value"], "properties": {
                    "value": {"title": "Value", "type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
                }}, "Color": {"enum": ["red", "green"], "title": "Color", "type": "string"}},
                "type": "object", "title": "Arguments", "required": ["tree"], "properties": {
                    "tree": {"$ref": "#/$defs/Node"},
                    "color": {"allOf": [{"$ref": "#/$defs/Color"}], "default": "red"},
                    "limit": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": null},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            }),
        ),
        (
            "zod",
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
                "required": ["point", "shape"], "properties": {
                    "point": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "number"}, {"type": "string"}]},
                    "shape": {"oneOf": [
                        {"type": "object", "required": ["kind", "radius"], "additionalProperties": false,
                         "properties": {"kind": {"type": "string", "const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}}},
                        {"type": "object", "required": ["kind", "side"], "additionalProperties": false,
                         "properties": {"kind": {"type": "string", "const": "square"}, "side": {"type": "number"}}},
                    ]},
                    "extra": {"type": "object", "additionalProperties": {}},
                    "first name": {"type": ["string", "null"]},
                },
            }),
        ),
        (
            "combined",
            json!({
                "type": "object", "properties": {
                    "id": {"type": "integer"}, "name": {"type": "string"},
                    "filter": {"type": "object", "properties": {"by": {"enum": ["age", "all"]}},
                               "if": {"properties": {"by": {"const": "age"}}, "required": ["by"]},
                               "then": {"properties": {"age": {"type": "integer"}}, "required": ["age"]}},
                },
                "oneOf": [{"required": ["id"]}, {"required": ["name"], "properties": {"exact": {"type": "boolean"}}}],
            }),
        ),
        ("free", json!({"type": "object", "additionalProperties": {"type": ["string", "number"]}})),
    ]
}
