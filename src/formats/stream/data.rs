//! Reading members of an event's data, of which anything may be missing or of another type.

use serde_json::{Map, Value};

use crate::domain::json;

/// Characters of a provider's error that are passed on.
const LONGEST_MESSAGE: usize = 500;

/// An event's data, or an object within it.
pub(super) type Object = Map<String, Value>;

/// Takes an object out.
pub(super) fn take_object(from: &mut Object, key: &str) -> Option<Object> {
    match from.get_mut(key).map(Value::take) {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// Takes the objects of an array out.
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

/// Takes a string out that is not empty.
pub(super) fn take_text(from: &mut Object, key: &str) -> Option<String> {
    match from.get_mut(key).map(Value::take) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// A string that is not empty.
pub(super) fn text<'a>(from: &'a Object, key: &str) -> Option<&'a str> {
    from.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// What an error says, in whatever shape it is given.
pub(super) fn error_message(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).or_else(|| error.as_str());
    json::shorten(&message.map_or_else(|| error.to_string(), str::to_owned), LONGEST_MESSAGE)
}
