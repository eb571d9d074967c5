//! Calls that somebody ends before they have ended: asked for, or by going away.

use serde_json::{Value, json};

use crate::support::shapes::failed;

mod disconnect;
mod phases;
mod request;

/// It ended because somebody wanted it to.
fn aborted(call: &Value) {
    assert_eq!(failed(call, "CANCELLED"), "Error: Operation aborted");
    assert_eq!((&call["phase"], &call["error"]["retryable"]), (&json!("done"), &json!(false)));
}
