//! Tools for Google's `generateContent`.

use serde_json::{Value, json};

use super::{PresentedTool, description};

/// Converts a definition to a function declaration. Gemini rejects an object without properties, so a tool without
/// arguments has no `parameters`.
pub(super) fn declaration(presented: &PresentedTool<'_>) -> Value {
    let mut declaration = json!({ "name": presented.name, "description": description(presented.definition) });
    let properties = presented.schema.get("properties").and_then(Value::as_object);
    if properties.is_some_and(|properties| !properties.is_empty()) {
        declaration["parameters"] = presented.schema.clone();
    }
    declaration
}
