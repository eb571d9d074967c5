//! Keywords of 2.0 and 3.0 that differ from JSON Schema: exclusive bounds and `nullable`.

use serde_json::{Map, Value, json};

use crate::import::reference;

/// Converts the boolean `exclusiveMinimum` of 2.0 and 3.0, which makes `minimum` exclusive, to a number.
pub(super) fn make_exclusive(object: &Map<String, Value>, made: &mut Map<String, Value>) {
    for (keyword, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if reference::is_true(object, keyword)
            && let Some(value) = made.shift_remove(bound)
        {
            made.insert(keyword.to_owned(), value);
        }
    }
}

/// Returns a schema that also allows `null`.
pub(super) fn nullable(mut made: Map<String, Value>) -> Value {
    if ["$ref", "allOf", "anyOf", "oneOf", "not"].iter().any(|keyword| made.contains_key(*keyword)) {
        let description = made.shift_remove("description");
        let mut whole = Map::new();
        whole.insert("anyOf".to_owned(), json!([made, {"type": "null"}]));
        whole.extend(description.map(|description| ("description".to_owned(), description)));
        return Value::Object(whole);
    }
    match made.get_mut("type") {
        Some(Value::String(name)) => {
            let types = json!([name, "null"]);
            made.insert("type".to_owned(), types);
        }
        Some(Value::Array(types)) if !types.contains(&"null".into()) => types.push("null".into()),
        _ => {}
    }
    if let Some(Value::Array(values)) = made.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(made)
}
