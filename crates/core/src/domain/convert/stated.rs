//! Failures that a tool states in its result: their code, their details, and whether the same call may succeed later.

use serde_json::{Map, Value};

use super::ToolOutput;
use crate::domain::{Code, Failure};

/// The only members of a result that states a failure.
const MEMBERS: [&str; 3] = ["output", "is_error", "error"];

/// Returns the failure of a result `{output, is_error: true, error: {…}}`, whose `output` is the message.
///
/// `error` has any of `retryable`, `retry_after_ms`, `details` and `code`. The only code that a tool can state is
/// `TOOL_VALIDATION_ERROR`, with `details.validation_errors`. A worker reports the failures of its tools in this form.
#[must_use]
pub fn stated_failure(name: &str, answer: &ToolOutput) -> Option<Failure> {
    let ToolOutput::Json(Value::Object(object)) = answer else { return None };
    if object.get("is_error") != Some(&Value::Bool(true)) || !object.keys().all(|key| MEMBERS.contains(&key.as_str())) {
        return None;
    }
    let message = object.get("output")?.as_str().filter(|message| !message.trim().is_empty())?;
    let error = object.get("error")?.as_object()?;
    let details = error.get("details").filter(|details| !details.is_null());
    let failure = match details.filter(|_| states_validation(error)).and_then(invalid_lines) {
        Some(lines) => Failure::validation(name, lines, details.cloned().unwrap_or_default()),
        None => Failure { details: details.cloned(), ..Failure::execution(name, message) },
    };
    let is_retryable = error.get("retryable") == Some(&Value::Bool(true));
    let retry_after_ms = error.get("retry_after_ms").and_then(Value::as_u64);
    Some(if is_retryable { failure.retryable(retry_after_ms) } else { failure })
}

fn states_validation(error: &Map<String, Value>) -> bool {
    error.get("code").and_then(Value::as_str) == Some(Code::ToolValidationError.as_str())
}

/// Returns the pointers and messages of invalid arguments; `None` if the list is empty or in another form.
fn invalid_lines(details: &Value) -> Option<Vec<(&str, &str)>> {
    let errors = details.get("validation_errors")?.as_array().filter(|errors| !errors.is_empty())?;
    errors.iter().map(|error| Some((error.get("pointer")?.as_str()?, error.get("message")?.as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::outcome_of;
    use super::*;

    fn failure_in(value: Value) -> Option<Failure> {
        stated_failure("t", &ToolOutput::Json(value))
    }

    #[test]
    fn error_states_retries_and_details() {
        let error = json!({"retryable": true, "retry_after_ms": 500, "details": {"queue": 3}});
        let stated = json!({"output": "busy", "is_error": true, "error": error});
        let expected = Failure { details: Some(json!({"queue": 3})), ..Failure::execution("t", "busy") };
        let expected = expected.retryable(Some(500));
        assert_eq!(failure_in(stated.clone()), Some(expected.clone()));
        assert_eq!(outcome_of("t", ToolOutput::Json(stated)).error, Some(expected));
        let plain = json!({"output": "no", "is_error": true, "error": {}});
        assert_eq!(failure_in(plain), Some(Failure::execution("t", "no")));
    }

    #[test]
    fn invalid_arguments_are_a_validation_failure() {
        let details = json!({"validation_errors": [{"pointer": "/n", "message": "must be even"}]});
        let error = json!({"code": "TOOL_VALIDATION_ERROR", "details": details});
        let failure = failure_in(json!({"output": "invalid", "is_error": true, "error": error})).unwrap();
        assert_eq!(failure, Failure::validation("t", [("/n", "must be even")], details));
        for details in [json!(null), json!({}), json!({"validation_errors": []}), json!({"validation_errors": [1]})] {
            let error = json!({"code": "TOOL_VALIDATION_ERROR", "details": details});
            let failure = failure_in(json!({"output": "invalid", "is_error": true, "error": error})).unwrap();
            assert_eq!((failure.code, &*failure.message), (Code::ToolExecutionError, "invalid"));
        }
    }

    #[test]
    fn other_results_have_no_failure() {
        let error = json!({"retryable": true});
        for value in [
            json!({"output": "x", "error": error}),
            json!({"output": "x", "is_error": false, "error": error}),
            json!({"output": "x", "is_error": true, "error": "text"}),
            json!({"output": "x", "is_error": true, "error": error, "details": {}}),
            json!({"output": " ", "is_error": true, "error": error}),
            json!({"content": [], "is_error": true, "error": error}),
        ] {
            assert_eq!(failure_in(value.clone()), None, "{value}");
        }
        assert_eq!(stated_failure("t", &ToolOutput::Text("x".into())), None);
    }
}
