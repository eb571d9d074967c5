//! Random values for a lowered schema in plain JSON Schema. A validator decides whether they are valid.

use serde_json::{Map, Value, json};

use crate::support::seeded::Seeded;

/// Generates a value that is probably valid, or `None` if no candidate is found.
pub fn for_schema(schema: &Value, document: &Value, chance: &mut Seeded, depth: u64) -> Option<Value> {
    if depth > 12 {
        return None;
    }
    let go = |schema: &Value, chance: &mut Seeded| for_schema(schema, document, chance, depth + 1);
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return go(document.pointer(reference.strip_prefix('#')?)?, chance);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.get(usize::try_from(chance.within(0..values.len().max(1) as u64)).unwrap()).cloned();
    }
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(branches) = schema.get(keyword).and_then(Value::as_array).filter(|_| !schema["type"].is_string()) {
            let first = chance.within(0..branches.len() as u64);
            let order = (0..branches.len()).map(|step| (usize::try_from(first).unwrap() + step) % branches.len());
            return order.into_iter().find_map(|index| go(&branches[index], chance));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds[usize::try_from(chance.within(0..kinds.len() as u64)).unwrap()].as_str()?.to_owned()
        }
        _ => chance.pick(&["string", "number", "boolean", "null", "object"]).to_owned(),
    };
    match kind.as_str() {
        "null" => Some(Value::Null),
        "boolean" => Some(json!(chance.one_in(2))),
        "string" => Some(text(schema, chance)),
        "integer" | "number" => Some(number(schema, chance, kind == "number")),
        "array" => array(schema, chance, go),
        _ => object(schema, chance, depth, go),
    }
}

fn text(schema: &Value, chance: &mut Seeded) -> Value {
    let format = match schema["format"].as_str() {
        Some("date") => "2024-02-29",
        Some("date-time") => "2024-02-29T12:00:00Z",
        Some("email") => "a@example.org",
        Some("uri") => "https://example.org/a",
        Some("uuid") => "0197a5b2-3c4d-7e8f-9a0b-1c2d3e4f5a6b",
        _ => "",
    };
    if !format.is_empty() {
        return json!(format);
    }
    json!(chance.pick(&["", "a", "aa", "x_1", "12", "abc", "abcdef", "null", "1"]))
}

fn number(schema: &Value, chance: &mut Seeded, fraction: bool) -> Value {
    let whole = i64::try_from(chance.within(0..12)).unwrap() - 2;
    let step = schema["multipleOf"].as_f64().unwrap_or(1.0);
    if fraction && chance.one_in(2) {
        let double = f64::from(i32::try_from(whole).unwrap());
        return json!(if chance.one_in(2) { double * step } else { double + 0.25 });
    }
    json!(whole)
}

fn array(
    schema: &Value,
    chance: &mut Seeded,
    mut go: impl FnMut(&Value, &mut Seeded) -> Option<Value>,
) -> Option<Value> {
    let empty = json!({});
    let prefix = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    let least = schema["minItems"].as_u64().unwrap_or(0);
    let max = schema["maxItems"].as_u64().unwrap_or(least.max(prefix.len() as u64) + 2).max(least);
    let length = chance.within(least..max + 1);
    let item =
        |index: u64| prefix.get(usize::try_from(index).unwrap()).unwrap_or(schema.get("items").unwrap_or(&empty));
    (0..length).map(|index| go(item(index), chance)).collect::<Option<Vec<Value>>>().map(Value::Array)
}

fn object(
    schema: &Value,
    chance: &mut Seeded,
    depth: u64,
    mut go: impl FnMut(&Value, &mut Seeded) -> Option<Value>,
) -> Option<Value> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut object = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.contains(&name.as_str());
        if needed || depth < 6 && chance.one_in(2) {
            match go(property, chance) {
                Some(value) => drop(object.insert(name.clone(), value)),
                None if needed => return None,
                None => {}
            }
        }
    }
    for name in required {
        if !object.contains_key(name) {
            object.insert(name.to_owned(), json!("a"));
        }
    }
    let others = schema.get("additionalProperties").filter(|others| others.is_object() && chance.one_in(2));
    if let Some(value) = others.and_then(|others| go(others, chance)) {
        object.insert("other".to_owned(), value);
    }
    Some(Value::Object(object))
}
