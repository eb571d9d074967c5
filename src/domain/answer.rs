//! What an executor hands back, before it is converted to an outcome.

use std::sync::Arc;

use serde_json::Value;

use super::Outcome;

/// The raw result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Nothing at all.
    Nothing,
    /// Text that is no JSON.
    Text(String),
    /// A JSON value, read by the rules of contract section 4.
    Json(Value),
    /// A value that is data whatever its shape: it is `structured`, its compact JSON is the output.
    Data(Arc<Value>),
    /// An image's bytes.
    Image {
        /// As they are in a file.
        bytes: Vec<u8>,
        /// As `image/png`.
        mime_type: String,
    },
    /// Already an outcome.
    Outcome(Box<Outcome>),
}
