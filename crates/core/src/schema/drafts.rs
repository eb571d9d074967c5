//! The supported drafts of JSON Schema.

use jsonschema::Draft;
use serde_json::Value;

use super::{SchemaError, display};

/// Returns the draft that a schema declares; 2020-12 if it declares none.
///
/// # Errors
/// Returns a [`SchemaError`] if `$schema` is unknown.
pub(super) fn read_draft(schema: &Value) -> Result<Draft, SchemaError> {
    declared("", schema).map(|draft| draft.unwrap_or(Draft::Draft202012))
}

/// Returns the draft that a subschema declares; `None` if it declares none.
///
/// # Errors
/// Returns a [`SchemaError`] if `$schema` is unknown.
pub(super) fn declared(pointer: &str, schema: &Value) -> Result<Option<Draft>, SchemaError> {
    let Some(value) = schema.get("$schema") else { return Ok(None) };
    let uri = value.as_str().unwrap_or_default();
    let name = uri.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://");
    match name {
        "json-schema.org/draft-04/schema" => Ok(Some(Draft::Draft4)),
        "json-schema.org/draft-06/schema" => Ok(Some(Draft::Draft6)),
        "json-schema.org/draft-07/schema" => Ok(Some(Draft::Draft7)),
        "json-schema.org/draft/2019-09/schema" => Ok(Some(Draft::Draft201909)),
        "json-schema.org/draft/2020-12/schema" => Ok(Some(Draft::Draft202012)),
        _ => Err(SchemaError {
            pointer: format!("{pointer}/$schema"),
            message: format!(
                "{} is not a known draft: omit \"$schema\" (2020-12), or use \
                 \"https://json-schema.org/draft/2020-12/schema\" or another official draft since draft 4",
                display::value(value)
            ),
        }),
    }
}
