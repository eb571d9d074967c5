//! Resolves `$ref` within the document.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::domain::json;

/// Maximum length of a chain of references.
const MAX_CHAIN: usize = 16;

/// Returns the target of a reference and its JSON Pointer.
///
/// # Errors
/// Returns the reason if the target is outside the document or does not exist.
pub fn target<'d>(document: &'d Value, reference: &str) -> Result<(String, &'d Value), String> {
    let shown = json::shorten(reference, 200);
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(format!(
            "it refers to \"{shown}\" outside the document, and nothing is fetched: bundle the document into one file \
             first, for example with `redocly bundle`"
        ));
    };
    let pointer = percent_decode_str(fragment).decode_utf8_lossy().into_owned();
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!("it refers to the anchor \"{shown}\"; only pointers (#/components/…) are supported"));
    }
    match document.pointer(&pointer) {
        Some(found) => Ok((pointer, found)),
        None => Err(format!("it refers to \"{shown}\", which does not exist")),
    }
}

/// Returns a value that is an object, or the object that its `$ref` leads to.
///
/// # Errors
/// Returns the reason if a reference is invalid or circular, or if the value is not an object.
pub fn object<'d>(document: &'d Value, value: &'d Value, what: &str) -> Result<&'d Map<String, Value>, String> {
    let mut found = value;
    for _ in 0..MAX_CHAIN {
        let Value::Object(object) = found else {
            return Err(format!("{what} must be an object, not {}", json::type_name(found)));
        };
        match object.get("$ref") {
            Some(Value::String(reference)) => found = target(document, reference)?.1,
            Some(other) => return Err(format!("`$ref` must be a string, not {}", json::type_name(other))),
            None => return Ok(object),
        }
    }
    Err(format!("{what} refers to itself, or through more than {MAX_CHAIN} references"))
}

/// Returns the named member; `None` if it is absent or `null`.
///
/// # Errors
/// Returns the reason if it is not an object.
pub fn member<'d>(object: &'d Map<String, Value>, name: &str) -> Result<Option<&'d Map<String, Value>>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(member)) => Ok(Some(member)),
        Some(other) => Err(format!("`{name}` must be an object, not {}", json::type_name(other))),
    }
}

/// Returns the elements of the named member; empty if it is absent.
///
/// # Errors
/// Returns the reason if it is not an array.
pub fn elements<'d>(object: &'d Map<String, Value>, name: &str) -> Result<&'d [Value], String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(other) => Err(format!("`{name}` must be an array, not {}", json::type_name(other))),
    }
}

/// Returns the text of the named member; `None` if it is not a string or is blank.
pub fn text<'d>(object: &'d Map<String, Value>, name: &str) -> Option<&'d str> {
    object.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the title of a document, shortened to `longest` characters.
pub fn document_title(document: &Map<String, Value>, longest: usize) -> Option<String> {
    let info = document.get("info").and_then(Value::as_object)?;
    text(info, "title").map(|title| json::shorten(title, longest))
}

/// Returns the elements of a member that an operation may override; empty if neither has it.
///
/// # Errors
/// Returns the reason if it is not an array.
pub fn inherited<'d>(
    operation: &'d Map<String, Value>,
    document: &'d Map<String, Value>,
    name: &str,
) -> Result<&'d [Value], String> {
    let own = elements(operation, name)?;
    if own.is_empty() { elements(document, name) } else { Ok(own) }
}

/// Returns `true` if the named member is `true`.
pub fn is_true(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_within_the_document_are_followed() {
        let document = json!({"a/b": {"c d": {"x": 1}}, "one": {"$ref": "#/two"}, "two": {"$ref": "#/a~1b/c%20d"},
            "self": {"$ref": "#/self"}, "five": 5});
        assert_eq!(object(&document, &document["one"], "it").unwrap()["x"], 1);
        assert_eq!(target(&document, "#/a~1b/c%20d").unwrap().0, "/a~1b/c d");
        for (value, expected) in [
            (json!({"$ref": "other.yaml#/x"}), "outside the document"),
            (json!({"$ref": "https://h/x"}), "nothing is fetched"),
            (json!({"$ref": "#/nowhere"}), "which does not exist"),
            (json!({"$ref": "#anchor"}), "anchor"),
            (json!({"$ref": "#/self"}), "refers to itself"),
            (json!({"$ref": "#/five"}), "must be an object, not integer"),
            (json!({"$ref": 5}), "`$ref` must be a string"),
            (json!([]), "must be an object, not array"),
        ] {
            let error = object(&document, &value, "the parameter").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
