//! The data of a result as JSON: already serialized text, or the value.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::cut::ShortValue;
use crate::domain::{JsonText, Outcome};

/// The `structured` of an outcome.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// Already serialized.
    Text(&'a JsonText),
    /// Not yet serialized.
    Value(&'a Value),
    /// With long texts truncated.
    Short(&'a Value),
}

impl<'a> Data<'a> {
    /// Returns the data of an outcome, if it has any.
    #[must_use]
    pub fn of(outcome: &'a Outcome) -> Option<Self> {
        let text = outcome.structured_text.as_ref().map(Self::Text);
        text.or_else(|| outcome.structured.as_deref().map(Self::Value))
    }
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Value(value) => value.serialize(serializer),
            Self::Short(value) => ShortValue(value).serialize(serializer),
        }
    }
}
