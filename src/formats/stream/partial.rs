//! The arguments of one call while they arrive: a text that is not complete, and what can be read of it.

use jiter::{JsonValue, PartialMode};
use serde_json::{Map, Number, Value};

/// Most bytes of one call's arguments.
pub const LIMIT: usize = 1024 * 1024;

/// The arguments are longer than [`LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are longer than {LIMIT} bytes")]
pub struct TooLong;

/// The text of one call's arguments as far as it has come.
#[derive(Debug, Clone, Default)]
pub struct Partial {
    text: String,
}

impl Partial {
    /// No text yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// If the text would be longer than [`LIMIT`]; it stays as it was.
    pub fn push(&mut self, piece: &str) -> Result<(), TooLong> {
        if piece.len() > LIMIT - self.text.len() {
            return Err(TooLong);
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// All that has come.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All that has come.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// The members that can be read so far, the last one perhaps in part. `None` if there is no object (yet).
    #[must_use]
    pub fn readable(&self) -> Option<Map<String, Value>> {
        match JsonValue::parse_with_config(self.text.as_bytes(), false, PartialMode::TrailingStrings) {
            Ok(value @ JsonValue::Object(_)) => match to_value(&value) {
                Value::Object(members) => Some(members),
                _ => None,
            },
            _ => None,
        }
    }
}

fn to_value(value: &JsonValue<'_>) -> Value {
    match value {
        JsonValue::Null => Value::Null,
        JsonValue::Bool(value) => Value::Bool(*value),
        JsonValue::Int(value) => Value::from(*value),
        JsonValue::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        JsonValue::Str(text) => Value::String(text.to_string()),
        JsonValue::Array(items) => items.iter().map(to_value).collect(),
        JsonValue::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.to_string(), to_value(value))).collect())
        }
    }
}
