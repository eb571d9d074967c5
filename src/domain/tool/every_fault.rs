//! Reading a definition that someone wrote with everything that does not fit, where reading itself ends at the first.

use serde_json::{Value, json};

use super::{ToolDefinition, read_definition};
use crate::domain::decode::DecodeError;
use crate::domain::json::pointer_token;

/// Most faults of one definition that are looked for.
const MOST: usize = 50;

/// A definition as far as it can be read: what does not fit is left out.
#[derive(Debug)]
pub struct Readable {
    /// The rest; `None` if that is nothing.
    pub definition: Option<ToolDefinition>,
    /// What does not fit, and is not in the rest.
    pub errors: Vec<DecodeError>,
}

impl Readable {
    /// Reads a definition.
    #[must_use]
    pub fn new(mut value: Value) -> Self {
        let mut errors: Vec<DecodeError> = Vec::new();
        while errors.len() < MOST {
            let error = match read_definition(value.clone()) {
                Ok(definition) => return Self { definition: Some(definition), errors },
                Err(error) => error,
            };
            // What stays wrong goes with all that is around it.
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

    /// Whether what is at this place follows from what was left out.
    #[must_use]
    pub fn is_left_out(&self, pointer: &str) -> bool {
        let top = |pointer: &str| pointer.split('/').nth(1).map(str::to_owned);
        self.errors.iter().any(|error| top(&error.pointer) == top(pointer))
    }
}

/// Takes the member at this place out of the definition, or all of the member of the root that it is in. Whether anything is
/// different then.
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
    // Without these there is no definition.
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
    fn every_fault_is_found() {
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
    fn good_rest_is_kept() {
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
