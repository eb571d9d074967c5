//! Tests of single rules; `tests/it/lowering` tests the properties of all lowered schemas.

use serde_json::{Value, json};

use super::{LoweredSchema, Target, lower};

/// Lowers a tool schema with one property, required or not.
fn property(target: Target, schema: &Value, required: bool) -> (Value, LoweredSchema) {
    let required = if required { json!(["p"]) } else { json!([]) };
    let whole = json!({"type": "object", "properties": {"p": schema}, "required": required});
    let lowered = lower(&whole, target).unwrap_or_else(|error| panic!("{error}"));
    (lowered.schema["properties"]["p"].clone(), lowered)
}

fn strict(schema: &Value) -> Value {
    property(Target::OpenAiStrict, schema, true).0
}

fn gemini(schema: &Value) -> Value {
    property(Target::Gemini, schema, true).0
}

fn keywords(lowered: &LoweredSchema) -> Vec<(&str, bool)> {
    lowered.losses.iter().map(|loss| (loss.keyword.as_str(), loss.widens)).collect()
}

#[test]
fn strict_optional_property_is_nullable() {
    let (schema, lowered) = property(Target::OpenAiStrict, &json!({"enum": ["a", "b"]}), false);
    assert_eq!(schema, json!({"type": ["string", "null"], "enum": ["a", "b", null]}));
    assert_eq!(lowered.restorer.apply(&json!({"p": null})), Some(json!({})));
    assert_eq!(lowered.restorer.apply(&json!({"p": "a"})), None);
    assert!(lowered.losses.is_empty());
}

#[test]
fn null_is_kept_if_the_original_allows_it() {
    let nullable = json!({"type": ["string", "null"]});
    let (schema, lowered) = property(Target::OpenAiStrict, &nullable, false);
    assert_eq!(schema, nullable);
    assert!(lowered.restorer.is_identity());
    assert_eq!(keywords(&lowered), [("required", false)]);
    let (_, lowered) = property(Target::OpenAiStrict, &json!({"type": ["string", "null"], "default": null}), false);
    assert!(lowered.losses.is_empty(), "absent and null mean the same");
}

#[test]
fn strict_expresses_length_as_pattern() {
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 10});
    assert_eq!(strict(&schema), json!({"type": "string", "pattern": r"^[\s\S]{1,10}$"}));
    let (schema, lowered) =
        property(Target::OpenAiStrict, &json!({"type": "string", "pattern": "^a", "maxLength": 3}), true);
    assert_eq!(schema, json!({"type": "string", "description": "At most 3 characters.", "pattern": "^a"}));
    assert_eq!(keywords(&lowered), [("maxLength", true)]);
}

#[test]
fn patterns_that_backtrack_are_described() {
    let schema = json!({"type": "string", "pattern": "^(?!x)[a-z]+$"});
    for target in [Target::OpenAiStrict, Target::Gemini] {
        let (shown, lowered) = property(target, &schema, true);
        assert!(shown.get("pattern").is_none() && shown["description"].as_str().unwrap().contains("(?!x)"), "{shown}");
        assert_eq!(keywords(&lowered), [("pattern", true)]);
    }
}

#[test]
fn gemini_bounds_are_inclusive() {
    let schema = json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9.5});
    assert_eq!(gemini(&schema), json!({"type": "integer", "minimum": 1, "maximum": 9}));
    let (schema, lowered) = property(Target::Gemini, &json!({"type": "number", "exclusiveMinimum": 0}), true);
    assert_eq!(schema, json!({"type": "number", "description": "Must be greater than 0.", "minimum": 0}));
    assert_eq!(keywords(&lowered), [("exclusiveMinimum", true)]);
}

#[test]
fn boolean_bounds_of_draft_4_are_supported() {
    let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {
        "p": {"type": "integer", "minimum": 3, "exclusiveMinimum": true}}});
    let lowered = lower(&schema, Target::OpenAi).unwrap();
    assert_eq!(lowered.schema["properties"]["p"], json!({"type": "integer", "exclusiveMinimum": 3}));
    assert!(lowered.schema.get("$schema").is_none());
}

#[test]
fn gemini_enum_strings_are_restored_to_their_values() {
    let (schema, lowered) = property(Target::Gemini, &json!({"enum": [1, 2.5, true, "", null]}), true);
    assert_eq!(schema, json!({"type": "string", "enum": ["(empty)", "1", "2.5", "true"], "nullable": true}));
    for (text, value) in [("1", json!(1)), ("2.5", json!(2.5)), ("true", json!(true)), ("(empty)", json!(""))] {
        assert_eq!(lowered.restorer.apply(&json!({"p": text})), Some(json!({"p": value})));
    }
    assert_eq!(lowered.restorer.apply(&json!({"p": "other"})), None);
}

#[test]
fn free_form_object_becomes_list_of_entries() {
    let (schema, lowered) =
        property(Target::OpenAiStrict, &json!({"type": "object", "additionalProperties": {"type": "integer"}}), true);
    assert_eq!(schema["items"]["required"], json!(["key", "value"]));
    let written = json!({"p": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]});
    assert_eq!(lowered.restorer.apply(&written), Some(json!({"p": {"a": 1, "b": 2}})));
    assert_eq!(lowered.restorer.apply(&json!({"p": {"a": 1}})), None, "the original's shape is taken too");
    assert_eq!(lowered.restorer.apply(&json!({"p": [{"key": "a"}]})), None);
    assert!(lowered.losses.is_empty());
}

#[test]
fn tuple_becomes_object_with_member_per_item() {
    let tuple = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2});
    let (schema, lowered) = property(Target::Gemini, &tuple, true);
    assert_eq!(schema["required"], json!(["item_1", "item_2"]));
    let written = json!({"p": {"item_1": "a", "item_2": 1}});
    assert_eq!(lowered.restorer.apply(&written), Some(json!({"p": ["a", 1]})));
    assert!(lowered.losses.is_empty());
    let pair =
        json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "minItems": 2, "maxItems": 2});
    assert_eq!(gemini(&pair), json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}));
}

#[test]
fn any_of_has_no_siblings() {
    let schema = json!({"description": "Which.", "minimum": 1, "anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]});
    let alone = json!({"anyOf": [
        {"type": "integer", "description": "Which.", "minimum": 1, "nullable": true},
        {"type": "string", "description": "Which."},
    ]});
    assert_eq!(gemini(&schema), alone);
    let beside = json!({"description": "Which.", "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}, {"type": "null"}]});
    assert_eq!(strict(&schema), beside);
}

#[test]
fn exclusive_one_of_becomes_any_of() {
    let branch = |kind: &str| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"const": kind}}});
    let (_, lowered) = property(Target::OpenAiStrict, &json!({"oneOf": [branch("a"), branch("b")]}), true);
    assert!(lowered.losses.is_empty());
    let (_, lowered) = property(Target::OpenAiStrict, &json!({"oneOf": [branch("a"), branch("a")]}), true);
    assert_eq!(keywords(&lowered), [("oneOf", true)]);
    let (_, lowered) = property(Target::Gemini, &json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), true);
    assert_eq!(keywords(&lowered), [("oneOf", true)]);
}

#[test]
fn value_is_restored_by_the_branch_that_accepts_it() {
    let schema = json!({"anyOf": [
        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "a"}, "x": {"type": "string"}}},
        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "b"}, "x": {"type": ["string", "null"]}}},
    ]});
    let (_, lowered) = property(Target::OpenAiStrict, &schema, true);
    assert_eq!(lowered.restorer.apply(&json!({"p": {"kind": "a", "x": null}})), Some(json!({"p": {"kind": "a"}})));
    assert_eq!(lowered.restorer.apply(&json!({"p": {"kind": "b", "x": null}})), None);
    let loose = json!({"p": {"kind": "a", "x": null, "more": 1}});
    assert_eq!(lowered.restorer.apply(&loose), Some(json!({"p": {"kind": "a", "more": 1}})), "the one it looks like");
}

#[test]
fn recursion_is_kept_or_unrolled() {
    let schema = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/Node"}}, "required": ["p"], "$defs": {"Node": {
        "type": "object", "required": ["children"], "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        "label": {"type": "string"}}}}});
    let lowered = lower(&schema, Target::OpenAiStrict).unwrap();
    assert_eq!(lowered.schema["properties"]["p"], json!({"$ref": "#/$defs/Node"}));
    let written = json!({"p": {"label": null, "children": [{"label": null, "children": []}]}});
    assert_eq!(lowered.restorer.apply(&written), Some(json!({"p": {"children": [{"children": []}]}})));
    let lowered = lower(&schema, Target::Gemini).unwrap();
    assert_eq!(keywords(&lowered), [("$ref", false)]);
    assert!(lowered.schema.to_string().contains("\"maxItems\":0"));
    let endless = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
    assert!(lower(&endless, Target::Gemini).is_err());
}

#[test]
fn rejected_names_get_aliases() {
    let schema = json!({"type": "object", "properties": {"user name": {"type": "string"}, "user_name": {"type": "string"},
        "in": {"type": "object", "properties": {"ä/ö": {"type": "integer"}}}}, "required": ["user name"]});
    let lowered = lower(&schema, Target::Anthropic).unwrap();
    let names: Vec<&String> = lowered.schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["user_name_2", "user_name", "in"]);
    assert_eq!(lowered.schema["required"], json!(["user_name_2"]));
    let written = json!({"user_name": "b", "user_name_2": "a", "in": {"___": 1}});
    let meant = json!({"user_name": "b", "user name": "a", "in": {"ä/ö": 1}});
    assert_eq!(lowered.restorer.apply(&written), Some(meant));
    assert!(lower(&schema, Target::OpenAi).unwrap().restorer.is_identity());
}

#[test]
fn root_has_no_combinators() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["a", "b"]}});
    for target in [Target::OpenAi, Target::OpenAiStrict, Target::Anthropic, Target::Gemini] {
        let lowered = lower(&schema, target).unwrap();
        assert_eq!(keywords(&lowered), [("anyOf", true), ("not", true)]);
        assert!(
            lowered.schema["description"]
                .as_str()
                .unwrap()
                .starts_with("At least one of these must match: (1) `a` must be given")
        );
    }
    let merged = json!({"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]});
    let lowered = lower(&merged, Target::OpenAi).unwrap();
    assert_eq!(lowered.schema, json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}));
    assert!(lowered.losses.is_empty());
}

#[test]
fn contradictory_schema_is_omitted_or_rejected() {
    let nothing = json!({"allOf": [{"type": "string"}, {"type": "integer"}]});
    for target in [Target::OpenAiStrict, Target::Gemini] {
        let whole = json!({"type": "object", "properties": {"p": nothing, "q": {"type": "string"}}});
        assert!(lower(&whole, target).unwrap().schema["properties"].get("p").is_none());
        let whole = json!({"type": "object", "properties": {"p": nothing}, "required": ["p"]});
        assert!(lower(&whole, target).is_err());
    }
}

#[test]
fn strict_has_limits() {
    let mut deep = json!({"type": "string"});
    for _ in 0..11 {
        deep = json!({"type": "object", "properties": {"p": deep}});
    }
    assert!(lower(&deep, Target::OpenAiStrict).unwrap_err().message.contains("11 levels"));
    assert!(lower(&deep, Target::OpenAi).is_ok());
    let values: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    let long = json!({"type": "object", "properties": {"p": {"enum": values}}});
    assert!(lower(&long, Target::OpenAiStrict).unwrap_err().message.contains("values"));
}

#[test]
fn exponential_schema_is_rejected() {
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    definitions.insert("d30".to_owned(), json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    for target in [Target::OpenAi, Target::OpenAiStrict, Target::Anthropic, Target::Gemini] {
        assert!(lower(&schema, target).is_err());
    }
}

#[test]
fn declared_members_are_not_restored_like_undeclared_ones() {
    let others = json!({"type": "object", "properties": {"a b": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"free": {}}, "additionalProperties": others});
    let lowered = lower(&schema, Target::Anthropic).unwrap();
    let given = json!({"free": {"a_b": "x"}, "other": {"a_b": "x"}});
    let restored = json!({"free": {"a_b": "x"}, "other": {"a b": "x"}});
    assert_eq!(lowered.restorer.apply(&given), Some(restored));
}
