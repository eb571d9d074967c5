//! The message for each violated keyword.

use super::{Kind, ValidationError, Value, display, nearest, type_names};

/// Describes an error, as a predicate whose subject is the value.
pub(super) fn describe_error(error: &ValidationError<'_>) -> String {
    let value = error.instance().as_ref();
    let got = display::value(value);
    match error.kind() {
        Kind::Type { kind } => of_type(&type_names(kind), value),
        Kind::Enum { options } => one_of(options.as_array().map_or(&[], Vec::as_slice), value),
        Kind::Constant { expected_value } => one_of(std::slice::from_ref(expected_value.as_ref()), value),
        Kind::Minimum { limit } => format!("must be at least {limit} (got {got})"),
        Kind::Maximum { limit } => format!("must be at most {limit} (got {got})"),
        Kind::ExclusiveMinimum { limit } => format!("must be greater than {limit} (got {got})"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit} (got {got})"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of} (got {got})"),
        Kind::MinLength { limit } => format!("must have at least {} (got {got})", counted(*limit, "character")),
        Kind::MaxLength { limit } => {
            let length = value.as_str().map_or(0, |text| text.chars().count());
            format!("must have at most {} (got {length})", counted(*limit, "character"))
        }
        Kind::MinItems { limit } => format!("must have at least {} (got {})", counted(*limit, "item"), size(value)),
        Kind::MaxItems { limit } => format!("must have at most {} (got {})", counted(*limit, "item"), size(value)),
        Kind::AdditionalItems { limit } => {
            format!("must have at most {} (got {})", counted(*limit as u64, "item"), size(value))
        }
        Kind::MinProperties { limit } => {
            format!("must have at least {} (got {})", properties(*limit), size(value))
        }
        Kind::MaxProperties { limit } => {
            format!("must have at most {} (got {})", properties(*limit), size(value))
        }
        Kind::UniqueItems => "must not have duplicate items".to_owned(),
        Kind::Contains => "has too few or too many items that match \"contains\"".to_owned(),
        Kind::UnevaluatedItems { .. } => "has items that the schema does not allow".to_owned(),
        Kind::Pattern { pattern } => format!("must match the pattern {} (got {got})", display::text(pattern)),
        // The keyword of a pattern that backtracks.
        Kind::Custom { message, .. } => format!("{message} (got {got})"),
        Kind::Format { format } => format!("must be a valid {format}{} (got {got})", example(format)),
        Kind::Not { .. } => "must not have this form".to_owned(),
        Kind::OneOfMultipleValid { .. } => {
            "matches more than one of the mutually exclusive forms: make it match exactly one".to_owned()
        }
        Kind::ContentEncoding { content_encoding } => format!("must be encoded as {content_encoding}"),
        Kind::ContentMediaType { content_media_type } => format!("must be text of the type {content_media_type}"),
        _ => "does not match the schema".to_owned(),
    }
}

/// Returns the value of the keyword from the error, for use if it is not found in the schema.
pub(super) fn expected(kind: &Kind) -> Value {
    match kind {
        Kind::Type { kind } => type_names(kind).into(),
        Kind::Enum { options } => options.as_ref().clone(),
        Kind::Constant { expected_value } => expected_value.as_ref().clone(),
        Kind::Minimum { limit }
        | Kind::Maximum { limit }
        | Kind::ExclusiveMinimum { limit }
        | Kind::ExclusiveMaximum { limit } => limit.clone(),
        Kind::Required { property } => property.clone(),
        Kind::Format { format } => format.as_str().into(),
        Kind::Pattern { pattern } => pattern.as_str().into(),
        Kind::FalseSchema => false.into(),
        _ => Value::Null,
    }
}

/// Describes a value whose type is not allowed.
pub(super) fn of_type(types: &[String], value: &Value) -> String {
    format!("must be {}, got {}", types.join(" or "), display::typed(value))
}

/// Describes a value that is not one of the allowed values.
pub(super) fn one_of(options: &[Value], value: &Value) -> String {
    let meant = value.as_str().and_then(|text| nearest(text, options.iter().filter_map(Value::as_str)));
    let hint = meant.map_or_else(String::new, |meant| format!(", did you mean {}?", display::text(meant)));
    let (one_of, list) = match options {
        [only] => ("", display::value(only)),
        several => ("one of ", display::listed(several.iter())),
    };
    format!("must be {one_of}{list} (got {}){hint}", display::value(value))
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn properties(count: u64) -> String {
    if count == 1 { "1 property".to_owned() } else { format!("{count} properties") }
}

fn size(value: &Value) -> usize {
    value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or_default()
}

fn example(format: &str) -> &'static str {
    match format {
        "date-time" => ", like \"2026-01-31T12:00:00Z\"",
        "date" => ", like \"2026-01-31\"",
        "time" => ", like \"12:00:00Z\"",
        "duration" => ", like \"PT1H30M\"",
        "email" => ", like \"name@example.org\"",
        "uri" => ", like \"https://example.org/\"",
        "uuid" => ", like \"0197f1a0-0000-7000-8000-000000000000\"",
        "ipv4" => ", like \"192.0.2.1\"",
        "ipv6" => ", like \"2001:db8::1\"",
        _ => "",
    }
}
