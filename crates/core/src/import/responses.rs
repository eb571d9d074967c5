//! The output schema of an operation: the JSON schema of its success response.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::media::is_json;
use super::reference;
use super::schema::{Bundler, Direction};
use super::version::Version;
use crate::schema::{self, CorrectedSchema, Role};

/// Returns the schema of the response with the lowest success status; `None` if it has no schema or is not JSON.
///
/// # Errors
/// Returns the reason if the schema of the document cannot be used.
pub fn output_schema<'d>(
    document: &'d Value,
    version: Version,
    operation: &'d Map<String, Value>,
    budget: &'d Cell<usize>,
) -> Result<Option<CorrectedSchema>, String> {
    let Some(responses) = reference::member(operation, "responses")? else { return Ok(None) };
    let success =
        responses.iter().filter(|(status, _)| status.starts_with('2')).min_by(|(one, _), (other, _)| one.cmp(other));
    let Some((_, response)) = success else { return Ok(None) };
    let response = reference::object(document, response, "a response")?;
    let found = match version {
        Version::V2 => produced(document, operation)?.then(|| response.get("schema")).flatten(),
        Version::V30 | Version::V31 => {
            let content = reference::member(response, "content")?;
            let media = content.and_then(|content| content.iter().find(|(media_type, _)| is_json(media_type)));
            match media {
                Some((_, media)) => reference::object(document, media, "a media type")?.get("schema"),
                None => None,
            }
        }
    };
    let Some(found) = found else { return Ok(None) };
    let mut bundler = Bundler::new(document, version, Direction::Response, budget);
    let mut made = bundler.schema(found)?;
    let definitions = bundler.definitions()?;
    match &mut made {
        Value::Object(members) if members.is_empty() => return Ok(None),
        Value::Object(members) if !definitions.is_empty() => {
            members.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Value::Object(_) => {}
        _ => return Ok(None),
    }
    schema::correct(&made, Role::Output).map(Some).map_err(|error| error.to_string())
}

/// Returns `true` if a 2.0 response can be JSON.
fn produced(document: &Value, operation: &Map<String, Value>) -> Result<bool, String> {
    let own = reference::elements(operation, "produces")?;
    let all = match document.as_object() {
        Some(document) if own.is_empty() => reference::elements(document, "produces")?,
        _ => own,
    };
    Ok(all.is_empty() || all.iter().filter_map(Value::as_str).any(is_json))
}
