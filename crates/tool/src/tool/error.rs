//! Errors of tools and of their arguments.

use std::any::Any;
use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment};

use toolpost_core::domain::decode::make_integer;
use toolpost_core::domain::{Failure, json};

/// An error of a tool, with a message for the model.
///
/// Every type that implements [`Display`] converts into it, so `?` works on every error, and so does
/// `Err("no such city".into())`. Only the message is kept, without source and backtrace.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    message: String,
    retry: Option<Option<u64>>,
    details: Option<Value>,
}

impl ToolError {
    /// Creates an error that is not retryable.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: None, details: None }
    }

    /// Marks the error as retryable: the same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retry: Some(None), ..self }
    }

    /// Marks the error as retryable after `retry_after_ms` milliseconds.
    #[must_use]
    pub fn retryable_after_ms(self, retry_after_ms: u64) -> Self {
        Self { retry: Some(Some(retry_after_ms)), ..self }
    }

    /// Adds details for people and programs; the model does not see them.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Returns the message for the model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Converts the error into the failure of a call of the tool `name`.
    #[must_use]
    pub fn into_failure(self, name: &str) -> Failure {
        let failure = Failure { details: self.details, ..Failure::execution(name, self.message) };
        match self.retry {
            Some(retry_after_ms) => failure.retryable(retry_after_ms),
            None => failure,
        }
    }
}

// Because of this conversion `ToolError` implements neither `Display` nor `Error`: it would conflict with
// `From<T> for T`.
impl<E: Display> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// Maximum number of invalid arguments in a failure.
const MAX_SHOWN: usize = 20;

/// Maximum length of one message in a failure, in bytes. A message may quote a value as long as the arguments.
const MAX_MESSAGE_BYTES: usize = 499;

/// An invalid argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument {
    /// JSON Pointer (RFC 6901) to the argument; empty for the arguments as a whole.
    pub pointer: String,
    /// Explanation for the model.
    pub message: String,
    /// The violated rule: a keyword of JSON Schema where one applies.
    pub keyword: &'static str,
}

impl InvalidArgument {
    /// Creates an error found by a tool's own validation.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), keyword: "validate" }
    }

    /// Creates the `TOOL_VALIDATION_ERROR` for a call of the tool `name`.
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

/// Deserializes arguments into the type of the tool.
///
/// # Errors
/// Returns the first argument that the schema allows but the type rejects.
pub(super) fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, Vec<InvalidArgument>> {
    // JSON Schema accepts 1.0 as an integer (2020-12 validation, section 6.1.1), serde does not. Converting such
    // numbers and tracking the path cost more than deserializing, so both are done only after a failure.
    let with_integers = || {
        let mut arguments = arguments.clone();
        make_integers(&mut arguments);
        A::deserialize(arguments)
    };
    A::deserialize(arguments).or_else(|_| with_integers()).or_else(|_| {
        serde_path_to_error::deserialize(arguments).map_err(|error| {
            vec![InvalidArgument {
                pointer: pointer(error.path()),
                message: error.inner().to_string(),
                keyword: "type",
            }]
        })
    })
}

/// Converts doubles that are whole numbers to integers.
fn make_integers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(make_integers),
        Value::Object(members) => members.values_mut().for_each(make_integers),
        value => {
            make_integer(value);
        }
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

/// Returns the message of a panic.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no panic message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> Result<(), ToolError> {
        text.parse::<u8>()?;
        Err("plain text".into())
    }

    #[test]
    fn any_error_converts_by_its_message() {
        assert_eq!(fails("x").unwrap_err().message(), "invalid digit found in string");
        assert_eq!(fails("1").unwrap_err().message(), "plain text");
        let chained = anyhow::anyhow!("secret cause").context("no connection");
        assert_eq!(ToolError::from(chained).message(), "no connection");
    }

    #[test]
    fn retryable_error_has_its_delay() {
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
    fn type_errors_have_a_pointer() {
        let invalid = read::<Order>(&json!({"a/b": [1, 0]})).unwrap_err();
        assert_eq!((invalid[0].pointer.as_str(), invalid[0].keyword), ("/a~1b/1", "type"));
        assert!(invalid[0].message.contains("nonzero"), "{}", invalid[0].message);
        assert_eq!(read::<Order>(&json!({})).unwrap_err()[0].pointer, "");
    }

    #[test]
    fn failure_limits_number_and_length_of_errors() {
        let invalid = vec![InvalidArgument::at("/a", "ä".repeat(1000)); 30];
        let failure = InvalidArgument::failure(&invalid, "t", &json!({}), &json!({}));
        assert_eq!(failure.text.lines().count(), 1 + 20);
        let errors = failure.details.unwrap()["validation_errors"].as_array().unwrap().clone();
        assert_eq!((errors.len(), errors[0]["message"].as_str().unwrap().len()), (20, 498));
    }
}
