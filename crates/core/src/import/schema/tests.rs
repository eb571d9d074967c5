use super::*;

fn bundled(document: &Value, version: Version, direction: Direction, schema: &Value) -> Result<Value, String> {
    let budget = Cell::new(10_000_000);
    let mut bundler = Bundler::new(document, version, direction, &budget);
    let mut made = bundler.schema(schema)?;
    let definitions = bundler.definitions()?;
    if !definitions.is_empty() {
        made["$defs"] = Value::Object(definitions);
    }
    Ok(made)
}

fn convert_schema(version: Version, schema: Value) -> Value {
    bundled(&json!({}), version, Direction::Request, &schema).unwrap()
}

#[test]
fn openapi_3_0_keywords_are_converted_to_2020_12() {
    for (old, new) in [
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"nullable": true, "oneOf": [{"type": "string"}], "description": "d"}),
            json!({"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}], "description": "d"}),
        ),
        (json!({"nullable": true}), json!({})),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "integer", "maximum": 9, "exclusiveMinimum": 1}),
        ),
        (json!({"type": "file"}), json!({"type": "string"})),
        (
            json!({"type": "string", "example": "x", "xml": {}, "externalDocs": {}, "x-y": 1, "discriminator": "z"}),
            json!({"type": "string", "examples": ["x"]}),
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}),
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
        ),
        (
            json!({"name": "q", "in": "query", "required": true, "type": "string", "collectionFormat": "csv"}),
            json!({"type": "string"}),
        ),
    ] {
        assert_eq!(convert_schema(Version::V30, old.clone()), new, "{old}");
    }
    let modern = json!({"type": ["string", "null"], "exclusiveMinimum": 1, "examples": ["x"], "const": "x", "prefixItems": [true]});
    assert_eq!(convert_schema(Version::V31, modern.clone()), modern);
}

#[test]
fn default_is_described_and_not_sent() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": "An a.", "default": "x"},
        "b": {"type": "integer", "default": 5}}});
    assert_eq!(
        convert_schema(Version::V30, schema),
        json!({"type": "object", "properties": {"a": {"type": "string", "description": "An a. Default: \"x\"."},
            "b": {"type": "integer", "description": "Default: 5."}}})
    );
}

#[test]
fn references_become_definitions_once() {
    let document = json!({"components": {"schemas": {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "tag": {"$ref": "#/definitions/Tag"}}},
        "a b": {"type": "string"}}}, "definitions": {"Tag": {"$ref": "#/components/schemas/a%20b"}, "Node": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/components/schemas/Node", "minLength": 3, "description": "d"},
        "y": {"$ref": "#/definitions/Node"}, "z": {"$ref": "#/components/schemas/Node"}}});
    let made = bundled(&document, Version::V30, Direction::Request, &schema).unwrap();
    assert_eq!(
        made["properties"],
        json!({"x": {"$ref": "#/$defs/Node", "description": "d"}, "y": {"$ref": "#/$defs/Node_2"}, "z": {"$ref": "#/$defs/Node"}})
    );
    assert_eq!(
        made["$defs"],
        json!({"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "tag": {"$ref": "#/$defs/Tag"}}},
        "Node_2": {"type": "integer"}, "Tag": {"$ref": "#/$defs/a_b"}, "a_b": {"type": "string"}})
    );
    let beside = bundled(&document, Version::V31, Direction::Request, &schema).unwrap();
    assert_eq!(beside["properties"]["x"]["minLength"], 3, "3.1 has siblings");
}

#[test]
fn read_only_and_write_only_properties_are_hidden() {
    let document = json!({"components": {"schemas": {"Base": {"type": "object", "properties": {"id": {"type": "integer", "readOnly": true}, "pw": {"$ref": "#/components/schemas/Secret"}}},
        "Secret": {"type": "string", "writeOnly": true}}}});
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "required": ["id", "pw", "n"], "properties": {"n": {}}}], "required": ["id"]});
    let sent = bundled(&document, Version::V30, Direction::Request, &schema).unwrap();
    assert_eq!((&sent["allOf"][1]["required"], &sent["required"]), (&json!(["pw", "n"]), &Value::Null));
    assert!(sent["$defs"]["Base"]["properties"].get("id").is_none());
    let answered = bundled(&document, Version::V30, Direction::Response, &schema).unwrap();
    assert_eq!((&answered["allOf"][1]["required"], &answered["required"]), (&json!(["id", "n"]), &json!(["id"])));
    assert!(answered["$defs"]["Base"]["properties"].get("pw").is_none());
}

#[test]
fn mapping_adds_a_constant_to_each_alternative() {
    let document = json!({"components": {"schemas": {"Cat": {"type": "object"}, "Dog": {"type": "object"}, "Cow": {"type": "object"}}}});
    let schema = json!({"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}, {"$ref": "#/components/schemas/Cow"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog", "hound": "#/components/schemas/Dog"}}});
    let made = bundled(&document, Version::V30, Direction::Request, &schema).unwrap();
    assert_eq!(
        made["oneOf"],
        json!([
        {"$ref": "#/$defs/Cat", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
        {"$ref": "#/$defs/Dog", "properties": {"kind": {"enum": ["dog", "hound"]}}, "required": ["kind"]},
        {"$ref": "#/$defs/Cow"}])
    );
}

#[test]
fn invalid_schema_is_rejected_with_its_location() {
    for (schema, expected) in [
        (json!({"properties": {"a": {"items": "x"}}}), "a: a schema must be an object, not string"),
        (json!({"properties": []}), "`properties` must be an object, not array"),
        (json!({"allOf": {}}), "`allOf` must be an array, not object"),
        (json!({"items": {"$ref": "x.json#/A"}}), "nothing is fetched"),
        (json!({"$ref": "#/nowhere"}), "which does not exist"),
        (json!({"$ref": 1}), "`$ref` must be a string"),
        (json!({"$dynamicRef": "#x"}), "$dynamicRef"),
        (json!({"enum": ["x".repeat(600_000)]}), "larger than 512 KiB"),
    ] {
        let error = bundled(&json!({}), Version::V31, Direction::Request, &schema).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn total_size_of_an_import_is_bounded() {
    let (document, budget) = (json!({}), Cell::new(100));
    let schema = json!({"properties": {"a": {}, "b": {}, "c": {}, "d": {}}});
    let mut bundler = Bundler::new(&document, Version::V31, Direction::Request, &budget);
    assert!(bundler.schema(&schema).unwrap_err().contains("`only`"));
}

#[test]
fn shape_of_a_parameter_is_detected() {
    let document = json!({"S": {"type": "string"}});
    let budget = Cell::new(100);
    let bundler = Bundler::new(&document, Version::V31, Direction::Request, &budget);
    for (schema, shape) in [
        (json!({"type": "integer"}), Shape::Scalar),
        (json!({"type": ["string", "null"]}), Shape::Scalar),
        (json!({"$ref": "#/S"}), Shape::Scalar),
        (json!({"enum": ["a", 1]}), Shape::Scalar),
        (json!({"type": "array", "items": {"$ref": "#/S"}}), Shape::Scalars),
        (json!({"type": "array"}), Shape::Composite),
        (json!({"type": "object"}), Shape::Composite),
        (json!({}), Shape::Composite),
        (json!({"oneOf": [{"type": "string"}]}), Shape::Composite),
        (json!({"$ref": "#/nowhere"}), Shape::Composite),
    ] {
        assert_eq!(bundler.shape(schema.as_object().unwrap()), shape, "{schema}");
    }
}
