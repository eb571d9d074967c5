//! One violation of a schema.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::json;

/// One violation of a schema by a value. Its size is bounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Violation {
    /// Location of the value, as an RFC 6901 pointer. For a missing or unexpected property, the location of its object.
    pub pointer: String,
    /// Message for the model: the fault and, if known, a suggestion.
    pub message: String,
    /// Violated keyword of the schema.
    pub keyword: String,
    /// Value of the keyword; shortened if it is long.
    pub expected: Value,
    /// Name of the missing or unexpected property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
}

/// Maximum length of a violation as JSON, in bytes.
const MAX_BYTES: usize = 499;
/// Maximum length of `expected`, in bytes.
const MAX_EXPECTED: usize = 160;

impl Violation {
    /// Shortens a violation to its maximum length: first `expected`, then the message, then the names from the
    /// arguments.
    pub(super) fn bounded(mut self) -> Self {
        self.expected = summary(self.expected);
        for characters in [200, 120, 60, 30] {
            if self.bytes() <= MAX_BYTES {
                return self;
            }
            if characters == 120 {
                self.expected = Value::Null;
            }
            self.message = json::shorten(&self.message, characters);
        }
        for characters in [60, 20, 5] {
            if self.bytes() <= MAX_BYTES {
                break;
            }
            self.pointer = json::shorten(&self.pointer, characters);
            self.property = self.property.map(|property| json::shorten(&property, characters));
        }
        self
    }

    fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(usize::MAX, |text| text.len())
    }
}

/// Shortens a value to [`MAX_EXPECTED`]: keeps the beginning of a list, and drops any other value that is too long.
fn summary(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let (mut remaining, mut kept) = (MAX_EXPECTED, Vec::new());
            for item in items {
                let bytes = if is_small(&item) { item.to_string().len() + 1 } else { usize::MAX };
                let Some(left) = remaining.checked_sub(bytes) else {
                    kept.push(Value::String("…".to_owned()));
                    break;
                };
                remaining = left;
                kept.push(item);
            }
            Value::Array(kept)
        }
        other if is_small(&other) && other.to_string().len() <= MAX_EXPECTED => other,
        _ => Value::Null,
    }
}

/// Returns `true` if a value is small enough to measure by serializing it.
fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_EXPECTED,
        Value::Array(items) => items.len() <= 20 && items.iter().all(is_small),
        Value::Object(members) => {
            members.len() <= 20 && members.iter().all(|(name, member)| name.len() <= MAX_EXPECTED && is_small(member))
        }
        _ => true,
    }
}
