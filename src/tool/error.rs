//! How a tool fails, and how its arguments do.

use std::any::Any;
use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment};

use crate::domain::{Failure, json};

/// Why a tool could not do it, in words for the model.
///
/// Whatever can be displayed becomes one, so `?` works on every error, and `Err("no such city".into())` does too. Only the
/// message is passed on: no source, no backtrace.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    message: String,
    retry: Option<Option<u64>>,
    details: Option<Value>,
}

impl ToolError {
    /// An error that will not pass by itself.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: None, details: None }
    }

    /// The same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retry: Some(None), ..self }
    }

    /// The same call may succeed in `retry_after_ms` milliseconds.
    #[must_use]
    pub fn retryable_after_ms(self, retry_after_ms: u64) -> Self {
        Self { retry: Some(Some(retry_after_ms)), ..self }
    }

    /// Adds facts for people and programs; the model does not see them.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// The words for the model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The failure of a call of the tool `name`.
    #[must_use]
    pub fn into_failure(self, name: &str) -> Failure {
        let failure = Failure { details: self.details, ..Failure::execution(name, self.message) };
        match self.retry {
            Some(retry_after_ms) => failure.retryable(retry_after_ms),
            None => failure,
        }
    }
}

// This is why `ToolError` itself is neither `Display` nor `Error`: it would be its own source.
impl<E: Display> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// How many faults a failure names.
const MAX_SHOWN: usize = 20;

/// How much of a fault's message a failure shows: a value in it could be as long as the arguments are.
const MAX_MESSAGE_BYTES: usize = 499;

/// One thing that is wrong with a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument {
    /// Where, as a JSON Pointer (RFC 6901); empty for the arguments as a whole.
    pub pointer: String,
    /// What is wrong there, for the model.
    pub message: String,
    /// The rule that is broken, in JSON Schema's words where it has one.
    pub keyword: &'static str,
}

impl InvalidArgument {
    /// A fault found by a tool's own validation.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), keyword: "validate" }
    }

    /// `TOOL_VALIDATION_ERROR` for a call of the tool `name`, with all that is wrong.
    #[must_use]
    pub fn failure(invalid: &[Self], name: &str, received: &Value, expected_schema: &Value) -> Failure {
        let shown = &invalid[..invalid.len().min(MAX_SHOWN)];
        let errors: Vec<Value> = shown
            .iter()
            .map(|invalid| {
                json!({
                    "pointer": invalid.pointer, "message": invalid.short(), "keyword": invalid.keyword,
                    "expected": null,
                })
            })
            .collect();
        let details = json!({
            "validation_errors": errors, "received": received, "expected_schema": expected_schema,
        });
        let lines = shown.iter().map(|invalid| (invalid.pointer.as_str(), invalid.short()));
        Failure::validation(name, lines, details)
    }

    fn short(&self) -> &str {
        &self.message[..self.message.floor_char_boundary(MAX_MESSAGE_BYTES)]
    }
}

/// Reads arguments as the tool's own type.
///
/// # Errors
/// What the type refuses although the schema let it pass, and where.
pub(super) fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, Vec<InvalidArgument>> {
    // JSON Schema takes 1.0 for an integer (2020-12 validation, section 6.1.1), Rust's integers do not; and keeping track
    // of the path costs more than the reading itself. Both are done only for those that fail.
    A::deserialize(arguments).or_else(|_| A::deserialize(with_whole_numbers(arguments.clone()))).or_else(|_| {
        serde_path_to_error::deserialize(arguments).map_err(|error| {
            vec![InvalidArgument {
                pointer: pointer(error.path()),
                message: error.inner().to_string(),
                keyword: "type",
            }]
        })
    })
}

/// Largest whole number that every double below it tells exactly: 2^53.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// The value with doubles that are whole numbers as integers.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(double) if double.fract() == 0.0 && double.abs() <= LARGEST_WHOLE => (double as i64).into(),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, with_whole_numbers(member))).collect()
        }
        other => other,
    }
}

fn pointer(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } | Segment::Enum { variant: key } => format!("/{}", json::pointer_token(key)),
            Segment::Unknown => String::new(),
        })
        .collect()
}

/// What a panic said.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> Result<(), ToolError> {
        text.parse::<u8>()?;
        Err("plain text".into())
    }

    #[test]
    fn any_error_becomes_one_by_its_message_alone() {
        assert_eq!(fails("x").unwrap_err().message(), "invalid digit found in string");
        assert_eq!(fails("1").unwrap_err().message(), "plain text");
        let chained = anyhow::anyhow!("secret cause").context("no connection");
        assert_eq!(ToolError::from(chained).message(), "no connection");
    }

    #[test]
    fn it_says_whether_and_when_to_try_again() {
        let error = ToolError::new("busy").retryable_after_ms(500).with_details(json!({"queue": 3}));
        let failure = error.into_failure("t");
        assert_eq!((failure.retryable, failure.retry_after_ms), (true, Some(500)));
        assert_eq!(failure.details, Some(json!({"queue": 3})));
        assert_eq!(failure.text, "Error executing tool \"t\": busy");
        assert!(!ToolError::new("no").into_failure("t").retryable);
    }

    #[derive(Debug, serde::Deserialize)]
    struct Order {
        #[serde(rename = "a/b")]
        #[expect(dead_code)]
        items: Vec<std::num::NonZeroU8>,
    }

    #[test]
    fn what_the_type_refuses_is_named_with_its_place() {
        let invalid = read::<Order>(&json!({"a/b": [1, 0]})).unwrap_err();
        assert_eq!((invalid[0].pointer.as_str(), invalid[0].keyword), ("/a~1b/1", "type"));
        assert!(invalid[0].message.contains("nonzero"), "{}", invalid[0].message);
        assert_eq!(read::<Order>(&json!({})).unwrap_err()[0].pointer, "");
    }

    #[test]
    fn a_failure_names_the_first_twenty_faults_and_no_endless_ones() {
        let invalid = vec![InvalidArgument::at("/a", "ä".repeat(1000)); 30];
        let failure = InvalidArgument::failure(&invalid, "t", &json!({}), &json!({}));
        assert_eq!(failure.text.lines().count(), 1 + 20);
        let errors = failure.details.unwrap()["validation_errors"].as_array().unwrap().clone();
        assert_eq!((errors.len(), errors[0]["message"].as_str().unwrap().len()), (20, 498));
    }
}
