//! The root of the arguments of a tool.

use serde_json::{Map, Value, json};

use super::Notes;
use crate::schema::document;

/// Makes the root an object schema if it says nothing else.
pub(super) fn root(schema: &mut Value, notes: &mut Notes) {
    if matches!(schema, Value::Null | Value::Bool(true)) {
        *schema = json!({"type": "object"});
        notes.add("", "the schema is missing, so any arguments are allowed");
        return;
    }
    resolve_reference(schema, notes);
    let Some(members) = schema.as_object_mut() else { return };
    match members.get("type") {
        None | Some(Value::Null) => {
            members.insert("type".to_owned(), json!("object"));
            notes.add("", "\"type\": \"object\" is added");
        }
        Some(Value::Array(types))
            if types.iter().any(|name| name == "object") && types.iter().all(is_object_or_null) =>
        {
            members.insert("type".to_owned(), json!("object"));
            notes.add("/type", "arguments are always an object, never null");
        }
        Some(_) => {}
    }
}

fn is_object_or_null(name: &Value) -> bool {
    name == "object" || name == "null"
}

/// Replaces a root that is a reference by the definition that it names.
fn resolve_reference(schema: &mut Value, notes: &mut Notes) {
    if schema.get("type").is_some() {
        return;
    }
    // A definition that is a reference itself is followed a few times only: references may form a cycle.
    for _ in 0..8 {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str).map(str::to_owned) else { return };
        let target = document::fragment(&reference).and_then(|pointer| schema.pointer(&pointer));
        let Some(Value::Object(target)) = target.cloned() else { return };
        let Some(members) = schema.as_object_mut() else { return };
        members.shift_remove("$ref");
        let own: Map<String, Value> = std::mem::take(members);
        *members = target;
        members.extend(own);
        notes.add("/$ref", format_args!("the definition {reference} is moved to the root"));
    }
}
