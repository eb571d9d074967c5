//! Decoding of JSON into types, with errors that name the path of the invalid value.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::json::pointer_token;

/// An error returned by [`read`] for a value that does not match the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct DecodeError {
    /// The path of the value, as a JSON Pointer (RFC 6901).
    pub pointer: String,
    /// The reason.
    pub message: String,
}

/// Checks that the values at these pointers are objects, absent or `null`. A derived type would also accept an array
/// with its members in order.
///
/// # Errors
/// Returns an error for the first other value.
pub fn expect_objects(value: &Value, pointers: &[&str]) -> Result<(), DecodeError> {
    expect(value, pointers, "an object", Value::is_object)
}

/// Checks that the values at these pointers are strings, absent or `null`. A derived enum would also accept an object
/// with the variant as its only member.
///
/// # Errors
/// Returns an error for the first other value.
pub fn expect_strings(value: &Value, pointers: &[&str]) -> Result<(), DecodeError> {
    expect(value, pointers, "a string", Value::is_string)
}

fn expect(value: &Value, pointers: &[&str], what: &str, is: impl Fn(&Value) -> bool) -> Result<(), DecodeError> {
    let wrong = pointers.iter().find_map(|pointer| {
        let found = value.pointer(pointer).filter(|found| !found.is_null() && !is(found))?;
        let message = format!("must be {what}, not {}", super::json::type_name(found));
        Some(DecodeError { pointer: (*pointer).to_owned(), message })
    });
    wrong.map_or(Ok(()), Err)
}

/// Maximum number of integers of one value that may be written as `5.0`.
const MAX_INTEGERS: usize = 64;

/// Decodes a value. Accepts `5.0` for an integer, as JSON and JSON Schema do. The type decides whether unknown fields
/// are rejected.
///
/// # Errors
/// Returns an error for the first invalid value.
pub fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, DecodeError> {
    for _ in 0..MAX_INTEGERS {
        match read_as_written(&value) {
            Err(error) if error.message.starts_with("invalid type: floating point") => {
                if !value.pointer_mut(&error.pointer).is_some_and(make_integer) {
                    return Err(error);
                }
            }
            read => return read,
        }
    }
    read_as_written(&value)
}

/// Converts a number without a fraction to an integer. Returns `true` if it did.
pub fn make_integer(value: &mut Value) -> bool {
    /// Maximum up to which every integer has an exact `f64` value.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() <= EXACT);
    let Some(number) = number else { return false };
    #[expect(clippy::cast_possible_truncation, reason = "the number is an integer of at most 53 bits")]
    let integer = number as i64;
    *value = integer.into();
    true
}

fn read_as_written<T: DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut pointer = String::new();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
                Segment::Map { key } => pointer.push_str(&format!("/{}", pointer_token(key))),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let message = error.inner().to_string();
        // In these two errors the path lacks the member, or ends in an unknown segment.
        for beginning in ["unknown field `", "missing field `"] {
            let name = message.strip_prefix(beginning).and_then(|rest| rest.split_once('`')).map(|(name, _)| name);
            if let Some(name) = name.map(pointer_token).filter(|name| !pointer.ends_with(&format!("/{name}"))) {
                pointer.push_str(&format!("/{name}"));
            }
        }
        DecodeError { pointer, message }
    })
}

#[cfg(test)]
mod tests {
    use super::super::ToolDefinition;
    use super::*;

    fn fault(value: Value) -> DecodeError {
        read::<ToolDefinition>(value).unwrap_err()
    }

    #[test]
    fn error_names_the_path() {
        let executor = serde_json::json!({"type": "builtin", "name": "echo"});
        let of = |extra: Value| {
            let mut tool = serde_json::json!({"name": "t", "executor": executor});
            tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            fault(tool)
        };
        assert_eq!(of(serde_json::json!({"limits": {"timout_ms": 1}})).pointer, "/limits/timout_ms");
        assert_eq!(of(serde_json::json!({"desc": 1})).pointer, "/desc");
        assert_eq!(of(serde_json::json!({"tags": ["a", 1]})).pointer, "/tags/1");
        assert_eq!(fault(serde_json::json!({"name": "t"})).pointer, "/executor");
        assert_eq!(of(serde_json::json!({"limits": {"timeout_ms": -1}})).pointer, "/limits/timeout_ms");
    }

    #[test]
    fn integer_may_be_written_with_zero_fraction() {
        let tool = |limits: Value, arguments: Value| serde_json::json!({"name": "t", "executor": {"type": "external"}, "limits": limits, "examples": [{"arguments": arguments}]});
        let given = serde_json::json!({"n": 5.0});
        let read: ToolDefinition =
            super::read(tool(serde_json::json!({"timeout_ms": 5.0, "max_concurrency": 1e2}), given.clone())).unwrap();
        assert_eq!((read.limits.timeout_ms, read.limits.max_concurrency), (Some(5), Some(100)));
        assert!(read.examples[0].arguments["n"].is_f64(), "an untyped value is not changed");
        for wrong in [5.5, -5.0, 1e300] {
            assert_eq!(
                fault(tool(serde_json::json!({"timeout_ms": wrong}), given.clone())).pointer,
                "/limits/timeout_ms"
            );
        }
    }
}
