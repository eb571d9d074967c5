//! Access to the members of a vendor's objects, with a pointer in errors. `null` counts as missing, because the
//! vendors' libraries write it for missing members.

use serde_json::{Map, Value, json};

use super::{Kind, ParsedCall};
use crate::domain::decode::DecodeError;
use crate::domain::json::type_name;

/// Creates an error at a pointer.
pub(super) fn error_at(pointer: &str, message: impl Into<String>) -> DecodeError {
    DecodeError { pointer: pointer.to_owned(), message: message.into() }
}

/// Removes and returns the first of these members that exists.
pub(super) fn take(object: &mut Map<String, Value>, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| object.swap_remove(*name).filter(|value| !value.is_null()))
}

/// Returns `true` if one of these members exists.
pub(super) fn has(object: &Map<String, Value>, names: &[&str]) -> bool {
    names.iter().any(|name| object.get(*name).is_some_and(|value| !value.is_null()))
}

pub(super) fn object(value: Value, pointer: &str) -> Result<Map<String, Value>, DecodeError> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(error_at(pointer, format!("must be an object, not {}", type_name(&other)))),
    }
}

pub(super) fn array(value: Value, pointer: &str) -> Result<Vec<Value>, DecodeError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(error_at(pointer, format!("must be an array, not {}", type_name(&other)))),
    }
}

/// Parses the calls among the objects of an array.
pub(super) fn calls_in(
    items: Value,
    pointer: &str,
    parse: impl Fn(Map<String, Value>, &str) -> Result<Option<ParsedCall>, DecodeError>,
) -> Result<Vec<ParsedCall>, DecodeError> {
    let mut found = Vec::new();
    for (index, item) in array(items, pointer)?.into_iter().enumerate() {
        let pointer = format!("{pointer}/{index}");
        found.extend(parse(object(item, &pointer)?, &pointer)?);
    }
    Ok(found)
}

/// Removes and returns a string, if it exists.
pub(super) fn text(object: &mut Map<String, Value>, name: &str, pointer: &str) -> Result<Option<String>, DecodeError> {
    match take(object, &[name]) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            Err(error_at(&format!("{pointer}/{name}"), format!("must be a string, not {}", type_name(&other))))
        }
    }
}

/// Removes and returns the name of a tool.
pub(super) fn name(object: &mut Map<String, Value>, pointer: &str) -> Result<String, DecodeError> {
    text(object, "name", pointer)?.ok_or_else(|| error_at(&format!("{pointer}/name"), "is missing"))
}

/// Removes and returns an id; an empty id counts as missing.
pub(super) fn id(object: &mut Map<String, Value>, name: &str, pointer: &str) -> Result<Option<String>, DecodeError> {
    Ok(text(object, name, pointer)?.filter(|id| !id.is_empty()))
}

/// Removes and returns the arguments of OpenAI's calls. The text of a custom call becomes `{"input": text}`.
pub(super) fn arguments(
    object: &mut Map<String, Value>,
    kind: Kind,
    pointer: &str,
) -> Result<Option<Value>, DecodeError> {
    Ok(match kind {
        Kind::Custom => Some(json!({ "input": text(object, "input", pointer)?.unwrap_or_default() })),
        _ => object.swap_remove("arguments"),
    })
}

/// Returns `true` if a member is a string for which `is` returns `true`.
pub(super) fn is_text(object: &Map<String, Value>, name: &str, is: impl Fn(&str) -> bool) -> bool {
    object.get(name).and_then(Value::as_str).is_some_and(is)
}

/// Returns the `type` of an object.
pub(super) fn type_of(object: &Map<String, Value>) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}
