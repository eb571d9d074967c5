//! `$ref`: only what is in the document itself is ever looked at.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::domain::json;

/// Most references from one to the next.
const LONGEST_CHAIN: usize = 16;

/// What a reference stands for, and its JSON Pointer.
///
/// # Errors
/// A reference to something outside of the document, or to nothing.
pub fn target<'d>(document: &'d Value, reference: &str) -> Result<(String, &'d Value), String> {
    let shown = json::shorten(reference, 200);
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(format!(
            "it refers to \"{shown}\" outside of the document, and nothing is fetched: bundle the document into one file \
             first, as with `redocly bundle`"
        ));
    };
    let pointer = percent_decode_str(fragment).decode_utf8_lossy().into_owned();
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!("it refers to the anchor \"{shown}\"; only pointers (#/components/…) are followed"));
    }
    match document.pointer(&pointer) {
        Some(found) => Ok((pointer, found)),
        None => Err(format!("it refers to \"{shown}\", which there is not")),
    }
}

/// The object that a value is, or that its `$ref` leads to.
///
/// # Errors
/// As [`target`]; something that is no object; references in a circle.
pub fn object<'d>(document: &'d Value, value: &'d Value, what: &str) -> Result<&'d Map<String, Value>, String> {
    let mut found = value;
    for _ in 0..LONGEST_CHAIN {
        let Value::Object(object) = found else {
            return Err(format!("{what} must be an object, not {}", json::type_name(found)));
        };
        match object.get("$ref") {
            Some(Value::String(reference)) => found = target(document, reference)?.1,
            Some(other) => return Err(format!("`$ref` must be a string, not {}", json::type_name(other))),
            None => return Ok(object),
        }
    }
    Err(format!("{what} refers to itself, or through more than {LONGEST_CHAIN} references"))
}

/// The member of this name, if it is there and no `null`.
///
/// # Errors
/// If it is no object.
pub fn member<'d>(object: &'d Map<String, Value>, name: &str) -> Result<Option<&'d Map<String, Value>>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(member)) => Ok(Some(member)),
        Some(other) => Err(format!("`{name}` must be an object, not {}", json::type_name(other))),
    }
}

/// The elements of the member of this name; none if it is not there.
///
/// # Errors
/// If it is no array.
pub fn elements<'d>(object: &'d Map<String, Value>, name: &str) -> Result<&'d [Value], String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(other) => Err(format!("`{name}` must be an array, not {}", json::type_name(other))),
    }
}

/// The text of the member of this name, if it is one with something in it.
#[must_use]
pub fn text<'d>(object: &'d Map<String, Value>, name: &str) -> Option<&'d str> {
    object.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// Whether the member of this name is `true`.
#[must_use]
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
        for (value, told) in [
            (json!({"$ref": "other.yaml#/x"}), "outside of the document"),
            (json!({"$ref": "https://h/x"}), "nothing is fetched"),
            (json!({"$ref": "#/nowhere"}), "which there is not"),
            (json!({"$ref": "#anchor"}), "anchor"),
            (json!({"$ref": "#/self"}), "refers to itself"),
            (json!({"$ref": "#/five"}), "must be an object, not integer"),
            (json!({"$ref": 5}), "`$ref` must be a string"),
            (json!([]), "must be an object, not array"),
        ] {
            let error = object(&document, &value, "the parameter").unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
