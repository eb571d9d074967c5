//! Decoding of a definition with all its errors, while [`read_definition`] stops at the first.

use serde_json::{Value, json};

use super::{ToolDefinition, read_definition};
use crate::domain::decode::DecodeError;
use crate::domain::json::pointer_token;

/// Maximum number of reported errors of a definition.
const MAX_ERRORS: usize = 50;

/// The valid part of a definition, and the errors of the rest.
#[derive(Debug)]
pub struct Readable {
    /// The valid part; `None` if nothing is valid.
    pub definition: Option<ToolDefinition>,
    /// The errors of the omitted part.
    pub errors: Vec<DecodeError>,
}

impl Readable {
    /// Decodes a definition.
    #[must_use]
    pub fn new(mut value: Value) -> Self {
        let mut errors: Vec<DecodeError> = Vec::new();
        while errors.len() < MAX_ERRORS {
            let error = match read_definition(value.clone()) {
                Ok(definition) => return Self { definition: Some(definition), errors },
                Err(error) => error,
            };
            // If the same path is still invalid, its whole top-level member is removed.
            let is_again = errors.iter().any(|known| known.pointer == error.pointer);
            let has_less = leave_out(&mut value, &error.pointer, is_again);
            if !is_again {
                errors.push(error);
            }
            if !has_less {
                break;
            }
        }
        Self { definition: None, errors }
    }

    /// Returns `true` if the value at `pointer` is affected by an omitted member.
    #[must_use]
    pub fn is_left_out(&self, pointer: &str) -> bool {
        let top = |pointer: &str| pointer.split('/').nth(1).map(str::to_owned);
        self.errors.iter().any(|error| top(&error.pointer) == top(pointer))
    }
}

/// Removes the member at `pointer`, or its whole top-level member. Returns `true` if the definition changed.
fn leave_out(value: &mut Value, pointer: &str, is_again: bool) -> bool {
    let mut tokens = pointer.split('/').skip(1);
    let Some(top) = tokens.next() else { return false };
    let is_deeper = tokens.next().is_some();
    if is_deeper && !is_again && value.pointer(pointer).is_some() {
        let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(members)) = value.pointer_mut(parent) {
            let name = members.keys().find(|name| pointer_token(name) == last).cloned();
            return name.is_some_and(|name| members.shift_remove(&name).is_some());
        }
    }
    let Value::Object(members) = value else { return false };
    let name = members.keys().find(|name| pointer_token(name) == top).cloned().unwrap_or_else(|| top.to_owned());
    // A definition requires these members, so they are replaced.
    let instead = match name.as_str() {
        "name" => Some(json!("unnamed")),
        "executor" => {
            members.entry("input_schema").or_insert_with(|| json!({"type": "object"}));
            Some(json!({"type": "external"}))
        }
        _ => None,
    };
    match instead {
        Some(instead) => members.insert(name, instead.clone()) != Some(instead),
        None => members.shift_remove(&name).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(value: Value) -> Vec<String> {
        Readable::new(value).errors.into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn every_error_is_found() {
        let value = json!({
            "nme": "t", "title": 5, "limits": {"timout_ms": 1, "max_concurrency": "x"}, "tags": ["a", 1],
            "annotations": [], "executor": {"type": "http", "headers": 3},
        });
        let mut found = pointers(value);
        found.sort_unstable();
        let limits = ["/limits/max_concurrency", "/limits/timout_ms"];
        assert_eq!(
            found,
            [&["/annotations", "/executor"], &limits[..], &["/name", "/nme", "/tags/1", "/title"]].concat()
        );
    }

    #[test]
    fn valid_part_is_kept() {
        let value = json!({"name": "t", "titel": "T", "tags": ["a"], "executor": {"type": "external"}});
        let readable = Readable::new(value);
        let definition = readable.definition.as_ref().unwrap();
        assert_eq!((definition.name.as_str(), definition.tags.as_slice()), ("t", &["a".to_owned()][..]));
        assert!(readable.is_left_out("/titel") && !readable.is_left_out("/input_schema"));
        for hopeless in [json!(5), json!([]), json!("x"), Value::Null] {
            assert_eq!(pointers(hopeless).len(), 1);
        }
    }
}
