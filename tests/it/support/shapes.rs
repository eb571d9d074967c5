//! Checks of common parts of responses.

use serde_json::Value;

/// A text that is hard for every layer: an emoji, U+0000, quotes, a newline, right-to-left text and combining marks.
pub const HARD_TEXT: &str = "a\u{0}b 😀 \"q\" \\ \n\t שלום e\u{301} \u{7f} \u{2028}";

/// Checks that a call failed with `code`, and returns its output for the model.
pub fn failed<'a>(call: &'a Value, code: &str) -> &'a str {
    assert_eq!(call["status"], "ERROR", "{call:#}");
    assert_eq!(call["error"]["code"], code, "{call:#}");
    assert_eq!(call["is_error"], true, "{call:#}");
    call["output"].as_str().unwrap()
}

/// Checks that a call succeeded, and returns its output for the model.
pub fn succeeded(call: &Value) -> &str {
    assert_eq!(call["status"], "SUCCESS", "{call:#}");
    assert_eq!(call["is_error"], false, "{call:#}");
    assert_eq!(call["error"], Value::Null, "{call:#}");
    call["output"].as_str().unwrap()
}

/// Returns the violations of a call whose arguments were rejected.
pub fn violations(call: &Value) -> &Vec<Value> {
    failed(call, "TOOL_VALIDATION_ERROR");
    call["error"]["details"]["validation_errors"].as_array().unwrap()
}

/// Returns the only violation.
pub fn violation(call: &Value) -> &Value {
    let all = violations(call);
    assert_eq!(all.len(), 1, "{all:#?}");
    &all[0]
}

/// Checks that one of the errors of a problem names `field`.
pub fn names_field(problem: &Value, field: &str) {
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors in {problem}"));
    let named = errors.iter().any(|error| {
        let (pointer, message) = (error["pointer"].as_str().unwrap(), error["message"].as_str().unwrap());
        pointer.contains(field) || message.contains(field)
    });
    assert!(named, "{field} in {problem:#}");
}

/// Checks that a problem has an error at `pointer` or below it.
pub fn points_at(problem: &Value, pointer: &str) {
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors in {problem}"));
    let found = errors.iter().any(|error| error["pointer"].as_str().unwrap().starts_with(pointer));
    assert!(found, "{pointer} in {problem:#}");
}

/// Returns `true` for RFC 3339 in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
pub fn is_time(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

/// Returns the names in a list of objects.
pub fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// Returns the ids in a list of objects.
pub fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}
