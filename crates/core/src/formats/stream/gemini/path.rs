//! Setting a value at a path like `$.to[0].name`.

use serde_json::{Map, Value};

use super::{Object, StreamError};

/// Maximum depth of a path.
const MAX_DEPTH: usize = 100;
/// Assumed size of a newly created value, in bytes.
const VALUE_BYTES: usize = 32;

const INVALID_PATH: StreamError = StreamError::Misshapen("`jsonPath`");

#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Sets the value of a partial argument at its path; strings are appended. Returns the approximate growth in bytes.
pub(super) fn set(root: &mut Value, path: &str, argument: &Object) -> Result<usize, StreamError> {
    let Some(value) = value_of(argument) else { return Ok(0) };
    let (mut slot, mut grown) = (root, 0);
    for step in steps(path)? {
        let (next, by) = enter(slot, &step)?;
        (slot, grown) = (next, grown + by);
    }
    match (slot, value) {
        (Value::String(old), Value::String(more)) => {
            old.push_str(more);
            grown += more.len();
        }
        (Value::Object(_) | Value::Array(_), _) => return Err(INVALID_PATH),
        (slot, new) => {
            grown += new.as_str().map_or(VALUE_BYTES, str::len);
            *slot = new.clone();
        }
    }
    Ok(grown)
}

fn value_of(argument: &Object) -> Option<&Value> {
    const NULL: &Value = &Value::Null;
    let of = |key: &str, is: fn(&Value) -> bool| argument.get(key).filter(|value| is(value));
    of("stringValue", Value::is_string)
        .or_else(|| of("numberValue", Value::is_number))
        .or_else(|| of("boolValue", Value::is_boolean))
        .or_else(|| argument.get("nullValue").map(|_| NULL))
}

/// Returns the value one step further, created if missing, and the growth in bytes.
fn enter<'v>(slot: &'v mut Value, step: &Step<'_>) -> Result<(&'v mut Value, usize), StreamError> {
    if slot.is_null() {
        *slot = match step {
            Step::Key(_) => Value::Object(Map::new()),
            Step::Index(_) => Value::Array(Vec::new()),
        };
    }
    match (slot, step) {
        (Value::Object(members), Step::Key(key)) => {
            let by = if members.contains_key(*key) { 0 } else { key.len() + VALUE_BYTES };
            Ok((members.entry(*key).or_insert(Value::Null), by))
        }
        (Value::Array(items), Step::Index(index)) => {
            // The sender skips empty items, so there may be gaps.
            let missing = index.saturating_add(1).saturating_sub(items.len());
            if missing > super::partial::LIMIT / VALUE_BYTES {
                return Err(INVALID_PATH);
            }
            items.resize(items.len() + missing, Value::Null);
            items.get_mut(*index).map(|item| (item, missing * VALUE_BYTES)).ok_or(INVALID_PATH)
        }
        _ => Err(INVALID_PATH),
    }
}

/// Parses the steps of `$.a.b[0]['c']`.
fn steps(path: &str) -> Result<Vec<Step<'_>>, StreamError> {
    let mut rest = path.strip_prefix('$').ok_or(INVALID_PATH)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return Err(INVALID_PATH);
        }
        let step;
        (step, rest) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (Step::Key(&after[..end]), &after[end..])
        } else if let Some((quote, after)) =
            ["['", "[\""].iter().find_map(|open| Some((&open[1..], rest.strip_prefix(open)?)))
        {
            let end = after.find(&format!("{quote}]")).ok_or(INVALID_PATH)?;
            (Step::Key(&after[..end]), &after[end + 2..])
        } else {
            let after = rest.strip_prefix('[').ok_or(INVALID_PATH)?;
            let (index, after) = after.split_once(']').ok_or(INVALID_PATH)?;
            (Step::Index(index.parse().map_err(|_| INVALID_PATH)?), after)
        };
        if step == Step::Key("") {
            return Err(INVALID_PATH);
        }
        steps.push(step);
    }
    if steps.is_empty() { Err(INVALID_PATH) } else { Ok(steps) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(root: &mut Value, path: &str, argument: Value) -> Result<usize, StreamError> {
        set(root, path, argument.as_object().unwrap())
    }

    #[test]
    fn values_are_set_and_strings_appended() {
        let mut root = json!({});
        for (path, argument) in [
            ("$.name", json!({"stringValue": "Mü"})),
            ("$.name", json!({"stringValue": "ller"})),
            ("$.to[0].city", json!({"stringValue": ""})),
            ("$.to[1].zip", json!({"numberValue": 12})),
            ("$.to[2]", json!({"nullValue": "NULL_VALUE"})),
            ("$['a.b'][\"c\"]", json!({"boolValue": false})),
            ("$.nothing", json!({"willContinue": true})),
        ] {
            put(&mut root, path, argument).unwrap();
        }
        assert_eq!(root, json!({"name": "Müller", "to": [{"city": ""}, {"zip": 12}, null], "a.b": {"c": false}}));
    }

    #[test]
    fn invalid_paths_are_rejected() {
        let deep = format!("${}", ".a".repeat(MAX_DEPTH + 1));
        for path in [
            "",
            "$",
            "a",
            "$.",
            "$..a",
            "$[",
            "$[x]",
            "$[-1]",
            "$['a",
            "$a",
            "$.a[99999999999]",
            "$.a[18446744073709551615]",
            &deep,
            "$.text.b",
            "$[0]",
        ] {
            let mut root = json!({"text": "x"});
            assert!(put(&mut root, path, json!({"stringValue": "y"})).is_err(), "{path}");
        }
        assert!(put(&mut json!({"a": {}}), "$.a", json!({"stringValue": "y"})).is_err());
    }

    #[test]
    fn created_values_are_counted() {
        let mut root = json!({});
        assert!(put(&mut root, "$.a[1000]", json!({"boolValue": true})).unwrap() > 1000 * VALUE_BYTES);
        assert_eq!(put(&mut root, "$.a[1000]", json!({"nullValue": null})).unwrap(), VALUE_BYTES);
    }
}
