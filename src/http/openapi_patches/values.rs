//! Bounds for arbitrary JSON in requests: integers beyond 64 bits are rejected, never rounded.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The schema of any JSON that the service accepts, defined in `common.json`.
const ANY: &str = "Json";
/// Keywords that constrain a value. A schema without any of them allows every value.
const CONSTRAINTS: [&str; 8] = ["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "not"];

/// Inserts the schema of any JSON wherever a request allows arbitrary values.
pub(super) fn bound(document: &mut Value) {
    let Some(mut schemas) = document.pointer("/components/schemas").and_then(Value::as_object).cloned() else { return };
    let mut waiting = Vec::new();
    let items = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    let operations = items.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    let contents = operations.filter_map(|operation| operation.pointer_mut("/requestBody/content")?.as_object_mut());
    for schema in contents.flat_map(Map::values_mut).filter_map(|content| content.get_mut("schema")) {
        bound_one(schema, &mut waiting);
    }
    let mut seen = HashSet::from([ANY.to_owned()]);
    while let Some(name) = waiting.pop() {
        if seen.insert(name.clone())
            && let Some(schema) = schemas.get_mut(&name)
        {
            bound_one(schema, &mut waiting);
        }
    }
    document["components"]["schemas"] = schemas.into();
}

fn bound_one(schema: &mut Value, waiting: &mut Vec<String>) {
    let Value::Object(members) = schema else { return };
    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
        waiting.extend(target.rsplit('/').next().map(str::to_owned));
        return;
    }
    let any = || json!({ "$ref": format!("#/components/schemas/{ANY}") });
    if !CONSTRAINTS.iter().any(|word| members.contains_key(*word)) {
        members.extend(any().as_object().cloned().unwrap_or_default());
        return;
    }
    let is_object = |kind: &Value| kind == "object";
    let may_be_object = members
        .get("type")
        .is_some_and(|kind| is_object(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_object)));
    let is_open =
        members.get("additionalProperties").is_none_or(|others| others.as_object().is_some_and(Map::is_empty));
    if may_be_object && is_open {
        members.insert("additionalProperties".to_owned(), any());
    }
    let named = members.get_mut("properties").and_then(Value::as_object_mut);
    named.into_iter().flat_map(Map::values_mut).for_each(|schema| bound_one(schema, waiting));
    for word in ["anyOf", "oneOf", "allOf"] {
        let parts = members.get_mut(word).and_then(Value::as_array_mut);
        // Conditions on members are not schemas of their values.
        let is_whole =
            |part: &&mut Value| ["type", "$ref", "anyOf", "oneOf", "allOf"].iter().any(|word| part.get(word).is_some());
        parts.into_iter().flatten().filter(is_whole).for_each(|part| bound_one(part, waiting));
    }
    for word in ["items", "additionalProperties"] {
        if let Some(schema) = members.get_mut(word) {
            bound_one(schema, waiting);
        }
    }
}
