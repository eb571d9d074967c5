//! The arguments of a call: parsing, restoration from the schema that a vendor's model saw, coercion and validation.

use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) mod forward;
pub mod stream;

use crate::registry::{Entry, presets};
use toolpost_core::domain::json::WeighedError;
use toolpost_core::domain::{Failure, Vendor, json};
use toolpost_core::schema::lower::{LoweredSchema, Target};
use toolpost_core::schema::{CheckedArguments, Violation};

/// Maximum size of arguments that are checked on the current thread, in bytes.
pub(crate) const MAX_INLINE_CHECK: usize = 64 * 1024;

/// Parses and validates arguments. `has_memory` decides whether arguments that are JSON text fit into memory; see
/// [`json::parse_weighed`].
///
/// # Errors
/// Returns `ARGUMENTS_MALFORMED`, `TOOL_VALIDATION_ERROR`, or `OVERLOADED` if they do not fit into memory.
pub(crate) fn valid(
    entry: &Entry,
    given: &Arc<Value>,
    vendor: Option<Vendor>,
    has_memory: impl FnMut(usize) -> bool,
) -> Result<CheckedArguments, Box<Failure>> {
    checked(entry, &parsed(entry, given, has_memory)?, vendor)
}

/// Parses arguments to a value.
///
/// # Errors
/// Returns `ARGUMENTS_MALFORMED`, or `OVERLOADED` if they do not fit into memory.
pub(crate) fn parsed(
    entry: &Entry,
    given: &Arc<Value>,
    has_memory: impl FnMut(usize) -> bool,
) -> Result<Arc<Value>, Box<Failure>> {
    parse(given, has_memory).map_err(|error| match error {
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
pub(crate) fn checked(
    entry: &Entry,
    arguments: &Arc<Value>,
    vendor: Option<Vendor>,
) -> Result<CheckedArguments, Box<Failure>> {
    let mut first = None;
    // Presets are hidden from the model, so a guessed value is ignored and not an error.
    let arguments = &presets::without(&entry.definition.presets, arguments);
    for arguments in candidates(entry, arguments, vendor).iter().chain([arguments]) {
        match check(entry, arguments) {
            Ok(checked) => return Ok(checked),
            // The first attempt is the closest to the tool's schema, so its violations are the most useful for the
            // model.
            Err(violations) => drop(first.get_or_insert(violations)),
        }
    }
    Err(validation_failure(entry, arguments, &first.unwrap_or_default()).into())
}

/// Runs a check of arguments of the given size in bytes. A long check runs on a separate thread, because it would block
/// other tasks.
///
/// # Errors
/// Returns the failure of the check.
pub(crate) async fn check_without_blocking(
    tool: &str,
    size: usize,
    check: impl FnOnce() -> Result<CheckedArguments, Box<Failure>> + Send + 'static,
) -> Result<CheckedArguments, Box<Failure>> {
    if size <= MAX_INLINE_CHECK {
        return check();
    }
    let checked = tokio::task::spawn_blocking(check).await;
    checked.unwrap_or_else(|_| Err(Failure::execution(tool, "its arguments cannot be checked").into()))
}

/// Returns the arguments that a call with the given ones would run with.
///
/// # Errors
/// Returns all violations.
pub fn try_arguments(entry: &Entry, given: &Arc<Value>) -> Result<CheckedArguments, Vec<Violation>> {
    let arguments = parse(given, |_| true)
        .map_err(|reason| vec![violation(String::new(), format!("invalid JSON: {reason}"), "json", Value::Null)])?;
    check(entry, &presets::without(&entry.definition.presets, &arguments))
}

/// Parses arguments to a value. A string is parsed as JSON; `null` and blank text mean no arguments
/// (docs/reference/contract.md, section 3).
pub(crate) fn parse(given: &Arc<Value>, has_memory: impl FnMut(usize) -> bool) -> Result<Arc<Value>, WeighedError> {
    let none = || Arc::new(Value::Object(Map::new()));
    match &**given {
        Value::Null => Ok(none()),
        Value::String(text) if text.trim().is_empty() => Ok(none()),
        Value::String(text) => match json::parse_weighed(text.as_bytes(), has_memory)?.value {
            Value::Null => Ok(none()),
            value => Ok(Arc::new(value)),
        },
        _ => Ok(given.clone()),
    }
}

/// Coerces and validates arguments, applies defaults, and runs the tool's own check.
fn check(entry: &Entry, arguments: &Arc<Value>) -> Result<CheckedArguments, Vec<Violation>> {
    if !arguments.is_object() {
        let message = format!("arguments must be an object, got {}", json::type_name(arguments));
        return Err(vec![violation(String::new(), message, "type", "object".into())]);
    }
    let checked = entry.input.check(arguments, entry.definition.coerce)?;
    if let Some(Err(invalid)) = entry.validate.as_ref().map(|validate| validate(&checked.arguments)) {
        let violations =
            invalid.into_iter().map(|invalid| violation(invalid.pointer, invalid.message, "validate", Value::Null));
        return Err(violations.collect());
    }
    Ok(checked)
}

fn violation(pointer: String, message: String, keyword: &str, expected: Value) -> Violation {
    Violation { pointer, message, keyword: keyword.to_owned(), expected, property: None }
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

/// Returns the lowerings that a vendor's models may have seen, the strictest first. The request does not name the
/// lowering.
fn targets(vendor: Vendor) -> &'static [Target] {
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiResponses => &[Target::OpenAiStrict, Target::OpenAi],
        Vendor::Anthropic => &[Target::Anthropic],
        Vendor::Gemini => &[Target::Gemini],
    }
}

/// Returns `true` if the models of this vendor see a schema of the tool that differs in meaning from its own.
pub(crate) fn depends_on_vendor(entry: &Entry, vendor: Vendor) -> bool {
    let lowered = targets(vendor).iter().filter_map(|target| entry.lowered(*target).ok());
    lowered.into_iter().any(|lowered| !lowered.restorer.is_identity())
}

/// Returns the possible meanings of the arguments, the most likely first. Empty if no lowering changes the schema.
///
/// A restored form is tried before the arguments themselves, even if those are valid: an open object accepts almost any
/// property, including a property that has a different name in a vendor's schema.
fn candidates(entry: &Entry, arguments: &Arc<Value>, vendor: Option<Vendor>) -> Vec<Arc<Value>> {
    let Some(vendor) = vendor else { return Vec::new() };
    let is_valid = entry.input.is_valid(arguments);
    let lowered = targets(vendor).iter().filter_map(|target| Some((*target, entry.lowered(*target).ok()?)));
    let ways = lowered.filter(|(_, lowered)| !lowered.restorer.is_identity());
    let likely = ways.filter(|(target, lowered)| !is_valid || may_have_been_shown(*target, lowered, arguments));
    let mut candidates: Vec<Arc<Value>> =
        likely.filter_map(|(_, lowered)| lowered.restorer.apply(arguments)).map(Arc::new).collect();
    if is_valid {
        candidates.retain(|arguments| entry.input.is_valid(arguments));
    } else {
        candidates.sort_by_key(|arguments| !entry.input.is_valid(arguments));
    }
    candidates
}

/// Returns `true` if the arguments may have been written for this lowering. In strict mode a model writes every
/// property; the other vendors have one lowering each.
fn may_have_been_shown(target: Target, lowered: &LoweredSchema, arguments: &Value) -> bool {
    match target {
        Target::OpenAi => false,
        Target::Anthropic | Target::Gemini => true,
        Target::OpenAiStrict => {
            let required = lowered.schema.get("required").and_then(Value::as_array);
            let mut names = required.into_iter().flatten().filter_map(Value::as_str);
            names.all(|name| arguments.get(name).is_some())
        }
    }
}
