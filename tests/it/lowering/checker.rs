//! An independent second implementation of the rules of each vendor's subset.

use serde_json::{Map, Value};
use toolpost::schema::lower::Target;

const STRICT: [&str; 20] = [
    "type",
    "enum",
    "const",
    "anyOf",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "$defs",
    "$ref",
    "description",
    "title",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
];
const STRICT_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
const GEMINI: [&str; 20] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "propertyOrdering",
];
const GONE: [&str; 7] = ["$schema", "$id", "id", "$comment", "$anchor", "definitions", "nullable"];

/// Checks a lowered schema. Panics with the violated rule.
pub fn check(target: Target, schema: &Value) {
    assert_eq!(schema["type"], "object", "the root of {schema}");
    assert!(schema["properties"].is_object(), "properties of the root of {schema}");
    for keyword in ["anyOf", "allOf", "oneOf", "not", "enum", "const", "if", "then", "else", "$ref"] {
        assert!(schema.get(keyword).is_none(), "{keyword} at the root of {schema}");
    }
    visit(target, schema, schema, true);
}

fn visit(target: Target, schema: &Value, document: &Value, root: bool) {
    let Value::Object(keywords) = schema else { panic!("{target:?}: {schema} is no object") };
    if let Some(reference) = keywords.get("$ref") {
        let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/"));
        assert!(document["$defs"].get(name.expect("a local reference")).is_some(), "{reference} leads to nothing");
    }
    match target {
        Target::OpenAiStrict => strict(keywords, schema),
        Target::Gemini => gemini(keywords, schema, root),
        Target::OpenAi | Target::Anthropic => full(target, keywords, schema),
    }
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "patternProperties" | "dependentSchemas", Value::Object(members)) => {
                members.values().for_each(|member| visit(target, member, document, false));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(some)) => {
                assert!(!some.is_empty());
                some.iter().for_each(|one| visit(target, one, document, false));
            }
            ("additionalProperties" | "unevaluatedProperties", Value::Bool(_)) => {}
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems"
                | "contentSchema",
                one,
            ) => visit(target, one, document, false),
            _ => {}
        }
    }
}

fn full(target: Target, keywords: &Map<String, Value>, schema: &Value) {
    for keyword in GONE {
        assert!(!keywords.contains_key(keyword), "{keyword} in {schema}");
    }
    let types = match keywords.get("type") {
        Some(Value::Array(types)) => types.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    assert!(!types.iter().any(|kind| kind == "array") || keywords.contains_key("items"), "no items in {schema}");
    let Some(Value::Object(properties)) = keywords.get("properties") else { return };
    if target == Target::Anthropic {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        for name in properties.keys() {
            assert!((1..=64).contains(&name.len()) && name.chars().all(plain), "the name {name:?}");
        }
    }
}

fn strict(keywords: &Map<String, Value>, schema: &Value) {
    for keyword in keywords.keys() {
        assert!(STRICT.contains(&keyword.as_str()) || keyword == "maxItems", "{keyword} in {schema}");
    }
    if keywords.contains_key("$ref") {
        assert_eq!(keywords.len(), 1, "beside a $ref: {schema}");
        return;
    }
    if keywords.contains_key("anyOf") {
        assert!(!keywords.contains_key("type"));
        return;
    }
    let kind = match keywords.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => {
            assert!(kinds.len() == 2 && kinds[1] == "null", "types of {schema}");
            kinds[0].as_str().unwrap()
        }
        other => panic!("the type {other:?} of {schema}"),
    };
    match kind {
        "object" => {
            assert_eq!(keywords["additionalProperties"], false);
            let names: Vec<&str> = keywords["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            let required: Vec<&str> =
                keywords["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(names, required, "all are required in {schema}");
        }
        "array" => assert!(keywords.contains_key("items"), "no items in {schema}"),
        _ => {}
    }
    if let Some(format) = keywords.get("format") {
        assert!(STRICT_FORMATS.contains(&format.as_str().unwrap()), "{format}");
    }
}

fn gemini(keywords: &Map<String, Value>, schema: &Value, root: bool) {
    for keyword in keywords.keys() {
        assert!(GEMINI.contains(&keyword.as_str()), "{keyword} in {schema}");
    }
    if keywords.contains_key("anyOf") {
        assert_eq!(keywords.len(), 1, "beside an anyOf: {schema}");
        return;
    }
    let kind = keywords["type"].as_str().expect("one type");
    if let Some(values) = keywords.get("enum") {
        let plain = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        assert!(kind == "string" && values.as_array().unwrap().iter().all(plain), "enum in {schema}");
    }
    match kind {
        "object" => {
            let properties = keywords["properties"].as_object().unwrap();
            assert!(root || !properties.is_empty(), "an object without properties: {schema}");
            for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten() {
                assert!(properties.contains_key(name.as_str().unwrap()), "{name} is required in {schema}");
            }
        }
        "array" => assert!(keywords.contains_key("items"), "no items in {schema}"),
        "string" | "boolean" | "integer" | "number" => {}
        other => panic!("the type {other} in {schema}"),
    }
    let format = keywords.get("format").and_then(Value::as_str);
    let known: &[&str] = match kind {
        "string" => &["date-time", "enum"],
        "integer" => &["int32", "int64"],
        "number" => &["float", "double"],
        _ => &[],
    };
    assert!(format.is_none_or(|format| known.contains(&format)), "the format in {schema}");
}
