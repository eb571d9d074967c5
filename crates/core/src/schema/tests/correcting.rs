//! Schemas as other servers write them.

use serde_json::{Value, json};

use super::super::{CorrectedSchema, Role, correct};

fn corrected(schema: Value) -> CorrectedSchema {
    correct(&schema, Role::Input).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

fn property(schema: Value) -> Value {
    let CorrectedSchema { mut schema, notes } = corrected(json!({"type": "object", "properties": {"p": schema}}));
    assert!(!notes.is_empty());
    schema["properties"]["p"].take()
}

#[test]
fn valid_schema_is_unchanged() {
    let valid = json!({"type": "object", "properties": {"a": {"default": null, "enum": [null, 1]}}, "required": []});
    assert_eq!(corrected(valid.clone()), CorrectedSchema { schema: valid, notes: Vec::new() });
}

#[test]
fn root_without_a_type_is_an_object() {
    for root in [json!({}), json!(null), json!(true), json!({"type": null}), json!({"type": ["object", "null"]})] {
        assert_eq!(corrected(root.clone()).schema["type"], "object", "{root}");
    }
    let root = corrected(json!({"properties": {}}));
    assert_eq!(root.schema, json!({"properties": {}, "type": "object"}));
    assert_eq!(root.notes, ["the root: \"type\": \"object\" is added"]);
    let referred = corrected(json!({"$ref": "#/definitions/A", "definitions": {"A": {"type": "object",
        "properties": {"id": {"type": "integer"}}, "required": ["id"]}}}));
    assert_eq!((&referred.schema["type"], &referred.schema["required"]), (&json!("object"), &json!(["id"])));
    assert!(correct(&json!({"type": "string"}), Role::Input).is_err());
    assert!(correct(&json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}), Role::Input).is_err());
}

#[test]
fn lists_of_properties_are_read() {
    let given = json!({"type": "object", "properties": {"id": {"type": "string", "required": true},
        "b": {"type": "string", "required": false}}, "required": ["b", "b"]});
    assert_eq!(corrected(given).schema["required"], json!(["b", "id"]));
    for none in [json!(null), json!([])] {
        assert!(corrected(json!({"type": "object", "properties": none})).notes.len() == 1);
    }
    assert_eq!(corrected(json!({"type": "object", "required": "id"})).schema["required"], json!(["id"]));
}

#[test]
fn types_of_other_languages_are_read() {
    for (name, expected) in [
        ("str", "string"),
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("dict", "object"),
        ("list", "array"),
        ("STRING", "string"),
        ("None", "null"),
    ] {
        assert_eq!(property(json!({"type": name}))["type"], expected);
        assert_eq!(property(json!(name))["type"], expected);
    }
    assert_eq!(property(json!({"type": "datetime"})), json!({"type": "string", "format": "date-time"}));
    assert_eq!(property(json!({"type": "any", "title": "x"})), json!({"title": "x"}));
    assert_eq!(property(json!({"type": ["str", "int", "string"]}))["type"], json!(["string", "integer"]));
    assert!(correct(&json!({"type": "object", "properties": {"p": {"type": "banana"}}}), Role::Input).is_err());
}

#[test]
fn values_of_keywords_are_read() {
    for (given, expected) in [
        (json!({"type": "string", "description": null}), json!({"type": "string"})),
        (json!({"exclusiveMinimum": true, "minimum": 1}), json!({"exclusiveMinimum": 1})),
        (json!({"exclusiveMaximum": false, "maximum": 1}), json!({"maximum": 1})),
        (json!({"minLength": "3", "maxLength": -1}), json!({"minLength": 3})),
        (json!({"additionalProperties": "false"}), json!({"additionalProperties": false})),
        (json!({"enum": ["a", "a"], "anyOf": []}), json!({"enum": ["a"]})),
        (
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!({"prefixItems": [{"type": "string"}], "items": false}),
        ),
        (json!({"title": 1, "examples": "a"}), json!({"title": "1", "examples": ["a"]})),
        (json!(null), json!({})),
    ] {
        let CorrectedSchema { schema, .. } = corrected(json!({"type": "object", "properties": {"p": given}}));
        assert_eq!(schema["properties"]["p"], expected);
    }
}

#[test]
fn pattern_that_cannot_be_compiled_is_dropped_with_a_note() {
    let CorrectedSchema { schema, notes } =
        corrected(json!({"type": "object", "properties": {"p": {"pattern": "(a"}}}));
    assert_eq!(schema["properties"]["p"], json!({}));
    assert!(notes[0].starts_with("/properties/p/pattern: left out, so only the tool checks it"), "{notes:?}");
}

#[test]
fn forms_of_a_declared_draft_are_valid_there() {
    let draft_4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
        "properties": {"p": {"exclusiveMinimum": true, "minimum": 1, "type": "str"}}});
    assert_eq!(corrected(draft_4).schema["properties"]["p"]["exclusiveMinimum"], true);
    let unknown = json!({"$schema": "https://example.com/draft-99", "type": "object"});
    assert_eq!(corrected(unknown).schema, json!({"type": "object"}));
}
