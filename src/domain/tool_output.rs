//! What an executor hands back, before it is converted to an outcome.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Outcome, json};

/// The raw result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// Nothing at all.
    Nothing,
    /// Text that is no JSON.
    Text(String),
    /// A JSON value, read by the rules of docs/reference/contract.md, section 4.
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

impl ToolOutput {
    /// Reads a text that should be JSON. Valid JSON that holds a number beyond 64 bits is kept as text, with a note in
    /// `details`: the work behind it has been done.
    ///
    /// # Errors
    /// The text and what is wrong with it, if it is not JSON.
    pub fn of_json(text: String) -> Result<Self, (String, json::JsonError)> {
        match json::parse(text.as_bytes()) {
            Ok(value) => Ok(Self::Json(value)),
            Err(error) => match json::unkept_number(&text, &error) {
                Some(number) => {
                    let note = format!("the result is JSON with {number}; it is kept as text");
                    let mut details = Map::new();
                    details.insert("note".to_owned(), note.into());
                    Ok(Self::Outcome(Box::new(Outcome { details, ..Outcome::text(text) })))
                }
                None => Err((text, error)),
            },
        }
    }
}
