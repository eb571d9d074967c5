//! The output of an executor, before its conversion to an outcome.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Outcome, json};

/// The raw output of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// No output.
    Nothing,
    /// Text that is not JSON.
    Text(String),
    /// A JSON value, converted by the rules of docs/reference/contract.md, section 4.
    Json(Value),
    /// A value that is always data: it becomes `structured`, and its compact JSON becomes the output.
    Data(Arc<Value>),
    /// An image.
    Image {
        /// The bytes of the image file.
        bytes: Vec<u8>,
        /// The media type, for example `image/png`.
        mime_type: String,
    },
    /// A finished outcome.
    Outcome(Box<Outcome>),
}

impl ToolOutput {
    /// Parses a text that should be JSON. Valid JSON with a number that cannot be represented is kept as text, with a
    /// note in `details`, because the tool has already done its work.
    ///
    /// # Errors
    /// Returns the text and the error if the text is not JSON.
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
