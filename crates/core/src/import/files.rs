//! Files in forms: each is an argument that is an object with the bytes in base64 and a file name.

use serde_json::{Map, Value, json};

use super::media::is_json;
use super::reference::{self, text};
use crate::domain::json::shorten;

/// Maximum length of a list of media types in a description, in characters.
const MAX_TYPES_LENGTH: usize = 200;

/// Returns `true` if a 2.0 parameter is a file.
pub fn is_declared(parameter: &Map<String, Value>) -> bool {
    parameter.get("type").is_some_and(|name| name == "file")
}

/// Returns the argument schema of a field that is a file or an array of files; `None` for any other field. `media_type`
/// is the field's `contentType`.
///
/// # Errors
/// Returns the reason if the array's items have an invalid reference.
pub fn argument(
    document: &Value,
    field: &Map<String, Value>,
    media_type: Option<&str>,
) -> Result<Option<Value>, String> {
    if field.get("type").is_some_and(|name| name == "array") {
        let Some(items) = field.get("items").filter(|items| items.is_object()) else { return Ok(None) };
        let items = reference::object(document, items, "the items of a field")?;
        if !is_binary(items, media_type) {
            return Ok(None);
        }
        let mut schema =
            json!({"type": "array", "items": schema(media_type.or_else(|| text(items, "contentMediaType")))});
        for keyword in ["minItems", "maxItems"] {
            if let Some(bound) = field.get(keyword).filter(|bound| bound.is_u64()) {
                schema[keyword] = bound.clone();
            }
        }
        return Ok(Some(schema));
    }
    let own = media_type.or_else(|| text(field, "contentMediaType"));
    Ok(is_binary(field, media_type).then(|| schema(own)))
}

/// Returns `true` for `format: binary` (3.0), for `contentMediaType` without an encoding, and for a binary media type
/// of a field without a type (3.1).
fn is_binary(field: &Map<String, Value>, media_type: Option<&str>) -> bool {
    if field.get("format").is_some_and(|name| name == "binary") || is_declared(field) {
        return true;
    }
    let is_text = |media_type: &str| media_type.starts_with("text/plain") || is_json(media_type);
    let own = text(field, "contentMediaType").or(media_type.filter(|_| !field.contains_key("type")));
    let is_composed = ["$ref", "properties", "allOf", "anyOf", "oneOf", "contentEncoding"]
        .iter()
        .any(|word| field.contains_key(*word));
    own.is_some_and(|media_type| !is_text(media_type))
        && field.get("type").is_none_or(|name| name == "string")
        && !is_composed
}

/// Returns the schema of one file; `media_type` may be several media types, separated by commas.
pub fn schema(media_type: Option<&str>) -> Value {
    let mut content_type = json!({"type": "string", "description": "Its media type."});
    if let Some(media_type) = media_type {
        if media_type.contains(['*', ',']) {
            let description = format!("Its media type: {}.", shorten(media_type, MAX_TYPES_LENGTH));
            content_type["description"] = description.into();
        } else {
            content_type["default"] = media_type.into();
        }
    }
    json!({
        "type": "object",
        "properties": {
            "filename": {"type": "string", "description": "The name of the file, with its extension.",
                "minLength": 1, "maxLength": 255},
            "content_base64": {"type": "string", "description": "The bytes of the file, in base64.",
                "contentEncoding": "base64"},
            "content_type": content_type,
        },
        "required": ["filename", "content_base64"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_detected_in_every_notation() {
        let is_file = |field: Value, media_type: Option<&str>| {
            argument(&json!({}), field.as_object().unwrap(), media_type).unwrap().is_some()
        };
        for (field, media_type) in [
            (json!({"type": "string", "format": "binary"}), None),
            (json!({"type": "string", "contentMediaType": "image/png"}), None),
            (json!({}), Some("image/png, image/jpeg")),
            (json!({"type": "array", "items": {"type": "string", "format": "binary"}}), None),
            (json!({"type": "file"}), None),
        ] {
            assert!(is_file(field.clone(), media_type), "{field}");
        }
        for (field, media_type) in [
            (json!({"type": "string"}), None),
            (json!({}), None),
            (json!({"type": "string", "format": "byte"}), None),
            (json!({"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"}), None),
            (json!({"type": "object"}), Some("application/json")),
            (json!({"type": "array", "items": {"type": "string"}}), None),
        ] {
            assert!(!is_file(field.clone(), media_type), "{field}");
        }
        assert_eq!(schema(Some("image/png"))["properties"]["content_type"]["default"], "image/png");
    }
}
