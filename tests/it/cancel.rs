//! Calls that end early: cancelled by a request, or by a disconnect of the caller.

use serde_json::{Value, json};

use crate::support::shapes::failed;

mod disconnect;
mod matching;
mod phases;
mod request;

/// Checks that the call was cancelled.
fn aborted(call: &Value) {
    assert_eq!(failed(call, "CANCELLED"), "Error: Operation aborted");
    assert_eq!((&call["phase"], &call["error"]["retryable"]), (&json!("done"), &json!(false)));
}
