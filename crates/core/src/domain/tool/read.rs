//! Decoding of definitions: up to the first error, or with all errors.

use serde_json::{Value, json};

use super::ToolDefinition;
use crate::domain::decode::{self, DecodeError};
use crate::domain::json::{self, ReplacedBound, SCHEMA_MAPS, pointer_token};

/// Members that responses add to a definition. They are ignored in requests, so that a tool can be fetched, changed and
/// sent back.
const READ_ONLY: [&str; 9] =
    ["upstream", "source", "revision", "active", "paused", "definition_error", "created_at", "updated_at", "warnings"];

/// Parses the JSON of one or several definitions. `before` returns the number of leading path tokens that locate a
/// definition. Returns the value, and the bounds of its schemas that were replaced.
///
/// # Errors
/// Returns an error as [`json::parse_with_schemas`] does.
pub fn parse_definition(
    bytes: &[u8],
    before: impl Fn(&[String]) -> usize,
) -> Result<(Value, Vec<ReplacedBound>), json::JsonError> {
    json::parse_with_schemas(bytes, |path| match path[before(path).min(path.len())..].split_first() {
        Some((member, schema)) => {
            matches!(member.as_str(), "input_schema" | "output_schema")
                && json::is_within_schema(schema, |key| SCHEMA_MAPS.contains(&key))
        }
        None => false,
    })
}

/// Decodes a definition of a user.
///
/// # Errors
/// Returns an error for the first invalid or unknown member.
pub fn read_definition(mut value: Value) -> Result<ToolDefinition, DecodeError> {
    let parts = ["", "/annotations", "/limits", "/retry", "/executor", "/executor/auth", "/executor/auth/token"];
    decode::expect_objects(&value, &parts)?;
    decode::expect_objects(&value, &["/executor/auth/password", "/presets", "/executor/cookies", "/executor/styles"])?;
    check_presets(&value)?;
    decode::expect_objects(&value, &["/cache", "/approval", "/executor/limits", "/output_schema"])?;
    for index in 0..value["examples"].as_array().map_or(0, Vec::len) {
        decode::expect_objects(&value, &[&format!("/examples/{index}")])?;
    }
    decode::expect_strings(&value, &["/output_check", "/limits/truncate", "/executor/type", "/cache/scope"])?;
    decode::expect_strings(&value, &["/executor/body_type", "/executor/auth/type"])?;
    // An error inside a tagged enum would not name the path, so integers are converted in advance.
    let limits = value.pointer_mut("/executor/limits").and_then(Value::as_object_mut);
    for limit in limits.into_iter().flat_map(|limits| limits.values_mut()) {
        decode::make_integer(limit);
    }
    if let Value::Object(members) = &mut value {
        for name in READ_ONLY {
            members.shift_remove(name);
        }
    }
    decode::read(value)
}

/// Checks the presets. An invalid value can be a secret, so it is not quoted in the error.
fn check_presets(value: &Value) -> Result<(), DecodeError> {
    let presets = value.get("presets").and_then(Value::as_object).into_iter().flatten();
    for (name, preset) in presets {
        let pointer = format!("/presets/{}", pointer_token(name));
        if !preset.is_object() {
            let message = r#"must be an object: {"value": …} or {"secret": "NAME"}"#.to_owned();
            return Err(DecodeError { pointer, message });
        }
        decode::expect_strings(preset, &["/secret", "/kind"])
            .map_err(|error| DecodeError { pointer: format!("{pointer}{}", error.pointer), ..error })?;
    }
    Ok(())
}

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
    fn valid_prefix_is_kept() {
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
