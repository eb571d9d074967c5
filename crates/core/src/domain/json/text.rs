//! The compact JSON of a value, rendered once and shared by all copies of the value.

use std::cell::RefCell;
use std::sync::Arc;

use serde::{Serialize, Serializer, ser};
use serde_json::Value;
use serde_json::value::RawValue;

use super::write_value;

/// Maximum buffer size that is kept for the next rendering, in bytes.
const MAX_BUFFER: usize = 16 * 1024;

/// The compact JSON of a value. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Renders a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        thread_local! {
            static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        TEXT.with_borrow_mut(|text| {
            text.clear();
            write_value(text, value);
            // Rendered JSON is always UTF-8.
            let rendered = Self(std::str::from_utf8(text).unwrap_or("null").into());
            if text.capacity() > MAX_BUFFER {
                *text = Vec::new();
            }
            rendered
        })
    }

    /// Returns the text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Returns a shared handle to the text.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl AsRef<[u8]> for JsonText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Serialize for JsonText {
    /// Writes the text unchanged. Serde requires validated JSON, so the text is parsed; frequent writers use
    /// [`JsonText::get`] instead.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        text.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn serde_writes_the_text_unchanged() {
        let value = json!({"text": "a \"b\"\n", "number": 1.50, "none": [null, {}]});
        let text = JsonText::of(&value);
        assert_eq!(text.get(), value.to_string());
        assert_eq!(serde_json::to_string(&[&text]).unwrap(), format!("[{value}]"));
    }

    #[test]
    fn deepest_arguments_are_rendered() {
        let deep = (0..super::super::MAX_DEPTH).fold(Value::Null, |inner, _| json!([inner]));
        assert_eq!(serde_json::to_string(&JsonText::of(&deep)).unwrap(), deep.to_string());
    }
}
