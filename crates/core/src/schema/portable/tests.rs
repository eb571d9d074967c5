use super::*;

/// Returns the schema that is listed in place of this one.
fn listed(schema: Value) -> Value {
    input(&schema).unwrap_or(schema)
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

#[test]
fn schema_that_all_clients_accept_is_unchanged() {
    for schema in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "b": {"type": ["array", "null"], "items": {}}, "c": {"enum": [[], {"$ref": "x"}]}},
            "required": ["a"], "additionalProperties": false, "minProperties": 1}),
    ] {
        assert_eq!(input(&schema), None, "{schema}");
    }
}

#[test]
fn combinators_leave_the_root_and_their_meaning_stays_in_the_description() {
    let properties = json!({"a": {"type": "string"}, "b": {"type": "integer"}});
    let any = listed(json!({"type": "object", "properties": properties,
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}));
    assert_eq!((&any["type"], &any["properties"]), (&json!("object"), &properties));
    assert!(description(&any).contains("At least one of these must match: (1) `a` must be given"), "{any}");
    for (keyword, value, words) in [
        ("oneOf", json!([{"required": ["a"]}, {"required": ["b"]}]), "Exactly one"),
        ("not", json!({"required": ["a", "b"]}), "Must not match"),
        ("if", json!({"required": ["a"]}), "If `a` must be given"),
    ] {
        let mut schema = json!({"type": "object", "properties": properties, "then": {"required": ["b"]}});
        schema[keyword] = value;
        let shown = listed(schema);
        assert!(REFUSED_AT_ROOT.iter().all(|keyword| shown.get(keyword).is_none()), "{shown}");
        assert!(description(&shown).contains(words), "{keyword}: {shown}");
    }
    let all = listed(json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {"type": "integer"}}}]}));
    assert_eq!((&all["properties"], &all["required"]), (&properties, &json!(["a"])));
    let union =
        listed(json!({"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}));
    assert_eq!((&union["type"], &union["properties"]), (&json!("object"), &properties));
}

#[test]
fn references_and_old_drafts_are_converted_to_the_protocol_dialect() {
    let root = listed(json!({"$ref": "#/definitions/A", "definitions": {"A": {"type": "object",
        "properties": {"n": {"type": "number", "minimum": 0}}}}}));
    assert_eq!(root, json!({"type": "object", "properties": {"n": {"type": "number", "minimum": 0}}}));
    let old = listed(json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {
        "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
        "t": {"type": "array", "items": [{"type": "string"}]}}}));
    assert_eq!(old.get("$schema"), None);
    assert_eq!(old["properties"]["n"], json!({"type": "number", "exclusiveMinimum": 0}));
    assert_eq!(old["properties"]["t"]["prefixItems"], json!([{"type": "string"}]));
    let tree = listed(json!({"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}},
        "$defs": {"t": {"type": "object", "properties": {"next": {"$ref": "#/$defs/t"}}}}}));
    assert_eq!(tree["properties"]["t"]["$ref"], "#/$defs/t");
    assert!(tree["$defs"]["t"].is_object(), "only recursion needs references: {tree}");
}

#[test]
fn references_stay_if_inlining_would_be_much_longer() {
    let long = json!({"type": "string", "description": "x".repeat(1_000)});
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    let properties: Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"$ref": "#/$defs/long"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "$defs": {"long": long}});
    assert_eq!(listed(schema.clone()), schema);
    let short =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}});
    assert_eq!(listed(short), json!({"type": "object", "properties": {"a": {"type": "string"}}}));
}

#[test]
fn details_that_some_clients_reject_are_corrected() {
    let shown = listed(json!({"type": "object", "properties": {"list": {"type": "array"}, "any": true}}));
    assert_eq!(shown["properties"], json!({"list": {"type": "array", "items": {}}, "any": {}}));
    assert_eq!(listed(json!({"type": "object"})), json!({"type": "object", "properties": {}}));
    assert_eq!(listed(json!({}))["type"], "object");
    assert_eq!(listed(json!({"type": ["object", "null"], "properties": {}}))["type"], "object");
    let marked = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:a", "type": "object",
        "properties": {"a": {"type": "string"}}});
    assert_eq!(listed(marked), json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let named =
        listed(json!({"type": "object", "properties": {"$filter": {"type": "string"}}, "required": ["$filter"]}));
    assert_eq!(
        (&named["required"], named["properties"]["_filter"]["type"].as_str()),
        (&json!(["_filter"]), Some("string"))
    );
}

#[test]
fn header_annotations_stay_and_an_unlowerable_schema_keeps_its_properties() {
    let shown = listed(json!({"anyOf": [{"required": ["region"]}, {}], "properties": {"region": {"type": "string",
        "x-mcp-header": "region"}}}));
    assert_eq!(shown["properties"]["region"]["x-mcp-header"], "region");
    let never = listed(json!({"type": "object", "not": {}, "properties": {"a": {"type": "string"}}}));
    assert_eq!(never["properties"], json!({"a": {"type": "string"}}));
    assert_eq!(never.get("not"), None);
}

#[test]
fn output_schema_is_listed_only_if_it_stays_equally_permissive() {
    let object = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    for none in
        [json!({}), json!({"type": "array"}), json!({"anyOf": [{"type": "object"}]}), json!({"type": ["object"]})]
    {
        assert_eq!(output(&none), None, "{none}");
    }
    let plain = object(json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}));
    assert_eq!(output(&plain), Some(plain));
    let seven = "http://json-schema.org/draft-07/schema#";
    assert_eq!(output(&object(json!({"$schema": seven, "$id": "urn:x"}))), Some(object(json!({}))));
    let tuple = json!({"$schema": seven, "properties": {"t": {"type": "array", "items": [{"type": "string"}]}}});
    assert_eq!(output(&object(tuple)), None);
    let letters = json!({"properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}, "b": true}});
    let shown = output(&object(letters)).unwrap();
    assert_eq!(shown["properties"], json!({"a": {"type": "string"}, "b": {}}));
    let behind = json!({"properties": {"a": {"pattern": "(?<=x)y"}}});
    assert_eq!(output(&object(behind.clone())).unwrap()["properties"], behind["properties"]);
    let inverse = json!({"properties": {"a": {"not": {"pattern": "\\p{L}"}}}});
    assert_eq!(output(&object(inverse)), None);
}
