//! One thing that is wrong with a value.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::json;

/// One thing that is wrong with a value, small whatever the value is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Violation {
    /// Where (RFC 6901); of a missing or unexpected property: the object that it concerns.
    pub pointer: String,
    /// For the model: what is wrong, and often what was meant.
    pub message: String,
    /// The keyword of the schema that is not met.
    pub keyword: String,
    /// What the keyword says; shortened where it is long.
    pub expected: Value,
    /// The missing or unexpected property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
}

/// Bytes that a violation may take as JSON.
const MAX_BYTES: usize = 499;
/// Bytes of `expected` that are shown in any case.
const MAX_EXPECTED: usize = 160;

impl Violation {
    /// The same within the bound: first `expected` gives way, then the message, then the names that the caller made up.
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

/// A value within [`MAX_EXPECTED`]: of a long list its beginning, of everything else that is too long nothing.
fn summary(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let (mut room, mut kept) = (MAX_EXPECTED, Vec::new());
            for item in items {
                let bytes = if is_small(&item) { item.to_string().len() + 1 } else { usize::MAX };
                let Some(left) = room.checked_sub(bytes) else {
                    kept.push(Value::String("…".to_owned()));
                    break;
                };
                room = left;
                kept.push(item);
            }
            Value::Array(kept)
        }
        other if is_small(&other) && other.to_string().len() <= MAX_EXPECTED => other,
        _ => Value::Null,
    }
}

/// Whether it is worth writing out to learn how long it is.
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
