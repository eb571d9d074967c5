//! Reading JSON into our own shapes, with the place of what does not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::json::pointer_token;

/// A value that does not have the shape that it must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ShapeError {
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
pub fn expect_objects(value: &Value, pointers: &[&str]) -> Result<(), ShapeError> {
    expect(value, pointers, "an object", Value::is_object)
}

/// Refuses anything but strings under these pointers, where there is something: a derived enumeration would take an object
/// with the word as its only member.
///
/// # Errors
/// The first that is none.
pub fn expect_strings(value: &Value, pointers: &[&str]) -> Result<(), ShapeError> {
    expect(value, pointers, "a string", Value::is_string)
}

fn expect(value: &Value, pointers: &[&str], what: &str, is: impl Fn(&Value) -> bool) -> Result<(), ShapeError> {
    let wrong = pointers.iter().find_map(|pointer| {
        let found = value.pointer(pointer).filter(|found| !found.is_null() && !is(found))?;
        let message = format!("must be {what}, not {}", super::json::type_name(found));
        Some(ShapeError { pointer: (*pointer).to_owned(), message })
    });
    wrong.map_or(Ok(()), Err)
}

/// Reads a value; unknown members are refused where the shape says so.
///
/// # Errors
/// The first thing that does not fit.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, ShapeError> {
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
        ShapeError { pointer, message }
    })
}

#[cfg(test)]
mod tests {
    use super::super::ToolDefinition;
    use super::*;

    fn fault(value: Value) -> ShapeError {
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
}
