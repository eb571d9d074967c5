//! Access to the members of an event. Any member may be missing or of another type.

use serde_json::{Map, Value};

use crate::domain::json;

/// Maximum length of a provider's error message, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// The data of an event, or an object within it.
pub(super) type Object = Map<String, Value>;

/// Removes and returns an object.
pub(super) fn take_object(from: &mut Object, key: &str) -> Option<Object> {
    match from.get_mut(key).map(Value::take) {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// Removes an array and returns its objects.
pub(super) fn take_objects(from: &mut Object, key: &str) -> impl Iterator<Item = Object> + use<> {
    let items = match from.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    items.into_iter().filter_map(|item| match item {
        Value::Object(object) => Some(object),
        _ => None,
    })
}

/// Removes and returns a non-empty string.
pub(super) fn take_text(from: &mut Object, key: &str) -> Option<String> {
    match from.get_mut(key).map(Value::take) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Returns a non-empty string.
pub(super) fn text<'a>(from: &'a Object, key: &str) -> Option<&'a str> {
    from.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the message of an error of any form.
pub(super) fn error_message(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).or_else(|| error.as_str());
    json::shorten(&message.map_or_else(|| error.to_string(), str::to_owned), MAX_MESSAGE_CHARS)
}
