//! Changes for client generators that do not change the meaning of the document.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{SCHEMAS, change_request_schemas, collect_references, is_object};

/// Rewrites the document for client generators.
pub(super) fn reshape(document: &mut Value) {
    hide_conditions(document);
    change_request_schemas(document, |schema, waiting| {
        describe_defaults(schema);
        collect_references(schema, waiting);
    });
    if let Some(schemas) = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) {
        name_variants(schemas);
        *schemas = sort_by_reference(std::mem::take(schemas));
    }
}

/// Rewrites alternatives that only constrain the members of an object as `if` and `then`, which generators ignore.
///
/// Generators take an object with alternatives for a union type and lose its members.
fn hide_conditions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide_conditions),
        Value::Object(members) => {
            if is_object(members) {
                hide_conditions_of(members);
            }
            let schemas = members.iter_mut().filter(|(name, _)| !is_data(name));
            schemas.for_each(|(_, schema)| hide_conditions(schema));
        }
        _ => {}
    }
}

fn hide_conditions_of(schema: &mut Map<String, Value>) {
    let mut hidden = Vec::new();
    if schema.get("anyOf").is_some_and(are_conditions) {
        hidden.extend(schema.shift_remove("anyOf").map(|alternatives| require_alternative(&alternatives)));
    }
    let mut parts = match schema.shift_remove("allOf") {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    parts.retain(|part| {
        let alternatives =
            part.get("anyOf").filter(|all| part.as_object().is_some_and(|part| part.len() == 1 && are_conditions(all)));
        hidden.extend(alternatives.map(require_alternative));
        alternatives.is_none()
    });
    if parts.is_empty() && hidden.len() == 1 && !schema.contains_key("if") {
        schema.extend(hidden.pop().into_iter().flatten());
    }
    parts.extend(hidden.into_iter().map(Value::Object));
    if !parts.is_empty() {
        schema.insert("allOf".to_owned(), parts.into());
    }
}

/// Expresses that one of the alternatives holds: if not the first, then one of the others.
fn require_alternative(alternatives: &Value) -> Map<String, Value> {
    let (first, others) = alternatives.as_array().and_then(|all| all.split_first()).unwrap_or((&Value::Null, &[]));
    let then = if let [other] = others { other.clone() } else { json!({ "anyOf": others }) };
    Map::from_iter([("if".to_owned(), json!({ "not": first })), ("then".to_owned(), then)])
}

/// Moves defaults of requests to the descriptions, because generators send them with every request or make the members
/// required.
fn describe_defaults(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(describe_defaults),
        Value::Object(schema) => {
            let default = schema.shift_remove("default").filter(|value| value.is_string() || value.is_number());
            if let Some(default) = default {
                let text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
                let description = format!("{before} Default: `{text}`.").trim_start().to_owned();
                schema.insert("description".to_owned(), description.into());
            }
            for (name, member) in schema.iter_mut().filter(|(name, _)| !is_data(name)) {
                match member {
                    // A member of a request can have the same name as a keyword.
                    Value::Object(members) if name == "properties" => members.values_mut().for_each(describe_defaults),
                    member => describe_defaults(member),
                }
            }
        }
        _ => {}
    }
}

/// Returns `true` if a keyword contains data instead of a schema.
fn is_data(keyword: &str) -> bool {
    matches!(keyword, "example" | "examples" | "enum" | "const")
}

fn are_conditions(alternatives: &Value) -> bool {
    let is_type = |schema: &Value| schema.get("type").is_some() || schema.get("$ref").is_some();
    alternatives.as_array().is_some_and(|all| !all.iter().any(is_type))
}

/// Names each variant of a tagged union, so that clients get a named type: an `ExecutorSpec` whose `type` is `http`
/// becomes `HttpExecutorSpec`.
fn name_variants(schemas: &mut Map<String, Value>) {
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(tag) = variant.pointer("/properties/type/const").and_then(Value::as_str) else { continue };
            let own = capitalized(tag) + name;
            let reference = json!({ "$ref": format!("#{SCHEMAS}/{own}") });
            named.insert(own, std::mem::replace(variant, reference));
        }
    }
    schemas.extend(named);
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Sorts each schema after the schemas that it refers to, because generators read them in order.
fn sort_by_reference(mut schemas: Map<String, Value>) -> Map<String, Value> {
    let names: Vec<String> = schemas.keys().cloned().collect();
    let (mut ordered, mut seen) = (Map::new(), HashSet::new());
    for name in names {
        move_after_its_parts(name, &mut schemas, &mut ordered, &mut seen);
    }
    ordered
}

fn move_after_its_parts(
    name: String,
    schemas: &mut Map<String, Value>,
    ordered: &mut Map<String, Value>,
    seen: &mut HashSet<String>,
) {
    if !seen.insert(name.clone()) {
        return;
    }
    let Some(schema) = schemas.get_mut(&name).map(Value::take) else { return };
    let mut parts = Vec::new();
    collect_references(&schema, &mut parts);
    for part in parts {
        move_after_its_parts(part, schemas, ordered, seen);
    }
    ordered.insert(name, schema);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_become_if_and_then_and_types_stay() {
        let conditions = json!([{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]);
        let hidden =
            json!({"if": {"not": {"required": ["a"]}}, "then": {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}});
        let types = json!([{"type": "string"}, {"$ref": "#/components/schemas/A"}]);
        let mut value = json!({
            "one": {"type": "object", "properties": {}, "anyOf": conditions},
            "two": {"type": ["object", "null"], "allOf": [{"anyOf": conditions}, {"anyOf": [conditions[1], conditions[2]]}]},
            "types": {"type": "object", "anyOf": types},
            "anyOf": conditions,
        });
        hide_conditions(&mut value);
        let expected = json!({
            "one": {"type": "object", "properties": {}, "if": hidden["if"], "then": hidden["then"]},
            "two": {"type": ["object", "null"], "allOf": [hidden, {"if": {"not": {"required": ["b"]}}, "then": {"required": ["c"]}}]},
            "types": {"type": "object", "anyOf": types},
            "anyOf": conditions,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn defaults_of_requests_become_text_and_those_of_answers_stay() {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let body = json!({"content": {"application/json": {"schema": reference("Asked")}}});
        let mut document = json!({
            "paths": {"/": {"post": {"requestBody": body}}},
            "components": {"schemas": {
                "Answered": {"type": "integer", "default": 1},
                "Asked": {"type": "object", "properties": {"default": reference("Number"), "x": {"type": "object", "default": {}}}},
                "Number": {"type": "integer", "description": "A number.", "default": 5},
            }},
        });
        reshape(&mut document);
        let expected = json!({
            "Answered": {"type": "integer", "default": 1},
            "Number": {"type": "integer", "description": "A number. Default: `5`."},
            "Asked": {"type": "object", "properties": {"default": reference("Number"), "x": {"type": "object"}}},
        });
        assert_eq!(document["components"]["schemas"], expected);
    }

    #[test]
    fn variants_get_names_and_every_schema_comes_after_its_parts() {
        let variant = |tag: &str| json!({"type": "object", "properties": {"type": {"const": tag}, "b": {"$ref": "#/components/schemas/B"}}});
        let mut document = json!({"components": {"schemas": {
            "Spec": {"oneOf": [variant("http"), {"type": "null"}]},
            "B": {"items": {"$ref": "#/components/schemas/B"}},
        }}});
        reshape(&mut document);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(schemas.keys().collect::<Vec<_>>(), ["B", "HttpSpec", "Spec"]);
        let reference = json!({"$ref": "#/components/schemas/HttpSpec"});
        assert_eq!(schemas["Spec"]["oneOf"], json!([reference, {"type": "null"}]));
        assert_eq!(schemas["HttpSpec"], variant("http"));
    }
}
