//! Random schemas with every keyword, in the spellings of several drafts.

use serde_json::{Map, Value, json};

use crate::support::seeded::Seeded;

const NAMES: [&str; 9] = ["a", "b", "kind", "user name", "x-y", "ü", "$ref", "items", "id"];
const FORMATS: [&str; 7] = ["date", "date-time", "email", "uri", "uuid", "int32", "password"];
const PATTERNS: [&str; 3] = ["^a+$", "^x_", "^[0-9]{2}$"];

/// Generates a tool's input schema.
pub fn input(chance: &mut Seeded) -> Value {
    let mut schema = object(chance, 3);
    schema["type"] = json!("object");
    let definitions = if chance.one_in(4) { "definitions" } else { "$defs" };
    if definitions == "definitions" {
        schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    }
    if chance.one_in(5) {
        let branches = some(chance, 2, |chance| object(chance, 1));
        schema[chance.pick(&["anyOf", "oneOf", "allOf"])] = branches;
    }
    let text = schema.to_string();
    schema = serde_json::from_str(&text.replace("#/$defs/", &format!("#/{definitions}/"))).unwrap();
    if text.contains("#/$defs/") {
        let tree = json!({"type": "object", "required": ["a"], "properties": {
            "a": any(chance, 1), "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
        }});
        let shared = json!({"tree": tree, "word": scalar(chance)}).to_string();
        // The definitions of the tree may refer only to themselves and to the word.
        schema[definitions] = serde_json::from_str(&shared.replace("#/$defs/", &format!("#/{definitions}/"))).unwrap();
    }
    schema
}

fn some(chance: &mut Seeded, max: u64, mut one: impl FnMut(&mut Seeded) -> Value) -> Value {
    (0..chance.within(1..max + 1)).map(|_| one(chance)).collect()
}

fn any(chance: &mut Seeded, depth: u64) -> Value {
    let mut schema = match chance.within(0..if depth == 0 { 4 } else { 14 }) {
        0..=3 => scalar(chance),
        4..=6 => object(chance, depth - 1),
        7 | 8 => array(chance, depth - 1),
        9 => json!({ chance.pick(&["anyOf", "oneOf", "allOf"]): some(chance, 3, |chance| any(chance, depth - 1)) }),
        10 => json!({"anyOf": [any(chance, depth - 1), {"type": "null"}], "default": null}),
        11 => return json!({"$ref": chance.pick(&["#/$defs/tree", "#/$defs/word"])}),
        12 => return [json!({}), json!(true), json!(false)][usize::try_from(chance.within(0..3)).unwrap()].clone(),
        _ => conditional(chance, depth - 1),
    };
    if chance.one_in(6) {
        schema["description"] = json!("Some words.");
    }
    if chance.one_in(8) {
        schema["default"] = json!(1);
    }
    if chance.one_in(20) {
        schema["not"] = scalar(chance);
    }
    if chance.one_in(12) {
        schema[chance.pick(&["anyOf", "oneOf"])] = some(chance, 3, |chance| any(chance, depth.saturating_sub(1)));
    }
    schema
}

fn conditional(chance: &mut Seeded, depth: u64) -> Value {
    let mut schema = object(chance, depth);
    schema["if"] = json!({"properties": {"kind": {"const": "k"}}, "required": ["kind"]});
    schema["then"] = object(chance, 0);
    schema
}

fn scalar(chance: &mut Seeded) -> Value {
    match chance.within(0..12) {
        0 => json!({"type": "string", "minLength": chance.within(0..3), "maxLength": chance.within(2..6)}),
        1 => json!({"type": "string", "format": chance.pick(&FORMATS)}),
        2 => json!({"type": "string", "pattern": chance.pick(&PATTERNS)}),
        3 => json!({"type": "integer", "exclusiveMinimum": chance.within(0..3), "maximum": 7.5}),
        4 => json!({"type": "number", chance.pick(&["minimum", "exclusiveMaximum"]): 1.5}),
        5 => json!({"type": chance.pick(&["integer", "number"]), "multipleOf": chance.pick(&[0.5, 1.0, 3.0])}),
        6 => json!({"type": "boolean"}),
        7 => json!({"enum": some(chance, 4, value)}),
        8 => json!({"const": value(chance)}),
        9 => {
            json!({"type": [chance.pick(&["string", "integer", "null"]), chance.pick(&["boolean", "array", "object"])]})
        }
        10 => json!({"type": chance.pick(&["null", "string", "number"])}),
        _ => json!({"enum": ["one", "two", "three"], "nullable": true}),
    }
}

fn value(chance: &mut Seeded) -> Value {
    let values = [
        json!(1),
        json!(2.5),
        json!("1"),
        json!(""),
        json!("k"),
        json!(true),
        json!(null),
        json!([1]),
        json!({"a": 1}),
    ];
    values[usize::try_from(chance.within(0..values.len() as u64)).unwrap()].clone()
}

fn array(chance: &mut Seeded, depth: u64) -> Value {
    let mut schema = json!({"type": "array"});
    match chance.within(0..5) {
        0 => {}
        1 => {
            schema["prefixItems"] = some(chance, 3, |chance| any(chance, depth));
            schema["minItems"] = json!(schema["prefixItems"].as_array().unwrap().len());
            schema["items"] = json!(false);
        }
        _ => schema["items"] = any(chance, depth),
    }
    if chance.one_in(3) {
        schema["maxItems"] = json!(chance.within(1..4));
    }
    if chance.one_in(8) {
        schema["uniqueItems"] = json!(true);
    }
    schema
}

fn object(chance: &mut Seeded, depth: u64) -> Value {
    let mut properties = Map::new();
    for _ in 0..chance.within(0..4) {
        properties.insert(chance.pick(&NAMES).to_owned(), any(chance, depth));
    }
    let required: Vec<&String> = properties.keys().filter(|_| chance.one_in(2)).collect();
    let mut schema = json!({"type": "object", "required": required});
    match chance.within(0..8) {
        0 => schema["additionalProperties"] = any(chance, depth.saturating_sub(1)),
        1 => schema["additionalProperties"] = json!(true),
        2 => schema["patternProperties"] = json!({"^x_": any(chance, depth.saturating_sub(1))}),
        3 | 4 => schema["additionalProperties"] = json!(false),
        5 => schema["dependentRequired"] = json!({"a": ["b"]}),
        _ => {}
    }
    if chance.one_in(10) {
        schema["minProperties"] = json!(1);
    }
    if !properties.is_empty() || chance.one_in(2) {
        schema["properties"] = Value::Object(properties);
    }
    schema
}
