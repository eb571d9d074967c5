//! The arguments of a call: parsing, coercion and validation.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::restore_arguments;
use crate::domain::json::WeighedError;
use crate::domain::{Failure, Vendor, json};
use crate::registry::{Entry, presets};
use crate::schema::{Checked, Violation};

/// Parses and validates arguments. `has_room` decides whether arguments that are JSON text fit into memory; see
/// [`json::parse_weighed`].
///
/// # Errors
/// Returns `ARGUMENTS_MALFORMED`, `TOOL_VALIDATION_ERROR`, or `OVERLOADED` if they do not fit into memory.
pub(in crate::engine) fn valid(
    entry: &Entry,
    given: &Arc<Value>,
    vendor: Option<Vendor>,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Checked, Box<Failure>> {
    checked(entry, &parsed(entry, given, has_room)?, vendor)
}

/// Parses arguments to a value.
///
/// # Errors
/// Returns `ARGUMENTS_MALFORMED`, or `OVERLOADED` if they do not fit into memory.
pub(in crate::engine) fn parsed(
    entry: &Entry,
    given: &Arc<Value>,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Arc<Value>, Box<Failure>> {
    parse(given, has_room).map_err(|error| match error {
        WeighedError::Json(reason) => {
            Failure::malformed(&entry.name, &reason, given.as_str().unwrap_or_default()).into()
        }
        WeighedError::TooHeavy => {
            Failure::overloaded("No memory is available for the arguments of the call; it was not run").into()
        }
    })
}

/// Coerces and validates arguments against the schema of the tool. Arguments for a `vendor` are first restored from the
/// schema that the vendor's model saw, and tried unchanged if that fails.
///
/// # Errors
/// Returns `TOOL_VALIDATION_ERROR`.
pub(in crate::engine) fn checked(
    entry: &Entry,
    arguments: &Arc<Value>,
    vendor: Option<Vendor>,
) -> Result<Checked, Box<Failure>> {
    let mut first = None;
    // Presets are hidden from the model, so a guessed value is ignored and not an error.
    let arguments = &presets::without(&entry.definition.presets, arguments);
    let candidates = restore_arguments::candidates(entry, arguments, vendor);
    for arguments in candidates.iter().chain([arguments]) {
        match check(entry, arguments) {
            Ok(checked) => return Ok(checked),
            // The first attempt is the closest to the tool's schema, so its violations are the most useful for the
            // model.
            Err(violations) => drop(first.get_or_insert(violations)),
        }
    }
    Err(validation_failure(entry, arguments, &first.unwrap_or_default()).into())
}

/// Returns the arguments that a call with the given ones would run with.
///
/// # Errors
/// Returns all violations.
pub fn try_arguments(entry: &Entry, given: &Arc<Value>) -> Result<Checked, Vec<Violation>> {
    let arguments = parse(given, |_| true).map_err(|reason| {
        vec![Violation {
            pointer: String::new(),
            message: format!("invalid JSON: {reason}"),
            keyword: "json".into(),
            expected: Value::Null,
            property: None,
        }]
    })?;
    check(entry, &presets::without(&entry.definition.presets, &arguments))
}

/// Parses arguments to a value. A string is parsed as JSON; `null` and blank text mean no arguments
/// (docs/reference/contract.md, section 3).
pub(in crate::engine) fn parse(
    given: &Arc<Value>,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Arc<Value>, WeighedError> {
    let none = || Arc::new(Value::Object(Map::new()));
    match &**given {
        Value::Null => Ok(none()),
        Value::String(text) if text.trim().is_empty() => Ok(none()),
        Value::String(text) => match json::parse_weighed(text.as_bytes(), has_room)?.value {
            Value::Null => Ok(none()),
            value => Ok(Arc::new(value)),
        },
        _ => Ok(given.clone()),
    }
}

/// Coerces and validates arguments, applies defaults, and runs the tool's own check.
fn check(entry: &Entry, arguments: &Arc<Value>) -> Result<Checked, Vec<Violation>> {
    if !arguments.is_object() {
        let message = format!("arguments must be an object, got {}", json::type_name(arguments));
        return Err(vec![Violation {
            pointer: String::new(),
            message,
            keyword: "type".into(),
            expected: "object".into(),
            property: None,
        }]);
    }
    let checked = entry.input.check(arguments, entry.definition.coerce)?;
    if let Some(Err(invalid)) = entry.validate.as_ref().map(|validate| validate(&checked.arguments)) {
        let violations = invalid.into_iter().map(|invalid| Violation {
            pointer: invalid.pointer,
            message: invalid.message,
            keyword: "validate".into(),
            expected: Value::Null,
            property: None,
        });
        return Err(violations.collect());
    }
    Ok(checked)
}

fn validation_failure(entry: &Entry, arguments: &Value, violations: &[Violation]) -> Failure {
    let lines = violations.iter().map(|violation| (violation.pointer.as_str(), violation.message.as_str()));
    let details = serde_json::json!({
        "validation_errors": violations,
        "received": arguments,
        "expected_schema": &**entry.input.schema(),
    });
    Failure::validation(&entry.name, lines, details)
}
