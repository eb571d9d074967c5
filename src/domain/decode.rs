//! Reading JSON into our own shapes, with the place of what does not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::json::pointer_token;

/// A value that does not have the shape that it must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct DecodeError {
    /// Where (RFC 6901).
    pub pointer: String,
    /// What is wrong.
    pub message: String,
}

/// Refuses anything but objects under these pointers, where there is something: a derived shape would take an array for
/// its members in order.
///
/// # Errors
/// The first that is none.
pub fn expect_objects(value: &Value, pointers: &[&str]) -> Result<(), DecodeError> {
    expect(value, pointers, "an object", Value::is_object)
}

/// Refuses anything but strings under these pointers, where there is something: a derived enumeration would take an object
/// with the word as its only member.
///
/// # Errors
/// The first that is none.
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

/// Numbers of one value that are written as `5.0` where an integer stands, at most.
const MOST_MENDED: usize = 64;

/// Reads a value; unknown members are refused where the shape says so. To JSON, and to JSON Schema, `5.0` is an integer.
///
/// # Errors
/// The first thing that does not fit.
pub fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, DecodeError> {
    for _ in 0..MOST_MENDED {
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

/// Writes a number without a fraction as an integer. Whether it was one.
pub fn make_integer(value: &mut Value) -> bool {
    /// Beyond it, not every integer is a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() <= EXACT);
    let Some(number) = number else { return false };
    #[expect(clippy::cast_possible_truncation, reason = "it is an integer of 53 bits")]
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
        // The member that these two speak of has no segment of its own, or an unknown one.
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
    fn a_fault_names_its_place() {
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
    fn an_integer_may_be_written_with_a_point_and_nothing_behind_it() {
        let tool = |limits: Value, arguments: Value| serde_json::json!({"name": "t", "executor": {"type": "external"}, "limits": limits, "examples": [{"arguments": arguments}]});
        let given = serde_json::json!({"n": 5.0});
        let read: ToolDefinition =
            super::read(tool(serde_json::json!({"timeout_ms": 5.0, "max_concurrency": 1e2}), given.clone())).unwrap();
        assert_eq!((read.limits.timeout_ms, read.limits.max_concurrency), (Some(5), Some(100)));
        assert!(read.examples[0].arguments["n"].is_f64(), "what has no shape of ours stays as it is");
        for wrong in [5.5, -5.0, 1e300] {
            assert_eq!(
                fault(tool(serde_json::json!({"timeout_ms": wrong}), given.clone())).pointer,
                "/limits/timeout_ms"
            );
        }
    }
}
