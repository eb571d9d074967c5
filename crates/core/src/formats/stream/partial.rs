//! The incomplete arguments of one call: their text so far, and the members that can be parsed.

use std::borrow::Cow;

use jiter::{JsonValue, PartialMode};
use serde_json::{Map, Number, Value};

/// Maximum size of one call's arguments, in bytes.
pub const LIMIT: usize = 1024 * 1024;

/// The error for arguments longer than [`LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are longer than {LIMIT} bytes")]
pub struct TooLong;

/// The text of one call's arguments so far.
#[derive(Debug, Clone, Default)]
pub struct Partial {
    text: String,
    /// `true` if the text ends within a string.
    in_string: bool,
    /// `true` if the text ends with a backslash that starts an escape.
    escaped: bool,
}

impl Partial {
    /// Appends a chunk.
    ///
    /// # Errors
    /// Returns an error if the text would exceed [`LIMIT`]; the text is then unchanged.
    pub fn push(&mut self, piece: &str) -> Result<(), TooLong> {
        if piece.len() > LIMIT - self.text.len() {
            return Err(TooLong);
        }
        self.text.push_str(piece);
        for byte in piece.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text so far.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Parses the members so far; strings may be incomplete, numbers may not. Returns `None` if the text is not (yet)
    /// an object or contains an unsupported value, such as an integer beyond 64 bits.
    #[must_use]
    pub fn readable(&self) -> Option<Map<String, Value>> {
        let text = match self.text.trim_end_matches(|letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter))
        {
            // `12` may be the start of `125`.
            before if !self.in_string && !self.text[before.len()..].starts_with(['e', 'E']) => before,
            _ => &self.text,
        };
        match JsonValue::parse_with_config(text.as_bytes(), false, PartialMode::TrailingStrings) {
            Ok(JsonValue::Object(members)) => Some(object(&members)),
            _ => None,
        }
    }
}

fn object(members: &[(Cow<'_, str>, JsonValue<'_>)]) -> Map<String, Value> {
    members.iter().map(|(key, value)| (key.to_string(), to_value(value))).collect()
}

fn to_value(value: &JsonValue<'_>) -> Value {
    match value {
        JsonValue::Null => Value::Null,
        JsonValue::Bool(value) => Value::Bool(*value),
        JsonValue::Int(value) => Value::from(*value),
        JsonValue::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        JsonValue::Str(text) => Value::String(text.to_string()),
        JsonValue::Array(items) => items.iter().map(to_value).collect(),
        JsonValue::Object(members) => Value::Object(object(members)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn readable(text: &str) -> Option<Value> {
        let mut partial = Partial::default();
        text.chars().for_each(|letter| partial.push(&letter.to_string()).unwrap());
        assert_eq!(partial.text(), text);
        partial.readable().map(Value::Object)
    }

    #[test]
    fn partial_object_is_readable() {
        for (text, expected) in [
            ("{", json!({})),
            (" {\"", json!({})),
            ("{\"a", json!({})),
            ("{\"a\":", json!({})),
            ("{\"a\":\"", json!({"a": ""})),
            ("{\"a\":\"x1", json!({"a": "x1"})),
            ("{\"a\":\"x\\", json!({"a": "x"})),
            ("{\"a\":\"x\\u00e", json!({"a": "x"})),
            ("{\"a\":\"x\\ud83d", json!({"a": "x"})),
            ("{\"a\":\"x\\ud83d\\ude", json!({"a": "x"})),
            ("{\"a\":\"x\\ud83d\\ude00", json!({"a": "x😀"})),
            ("{\"a\":1", json!({})),
            ("{\"a\":-1.5e+3", json!({})),
            ("{\"a\":1,\"b\":[2,3", json!({"a": 1, "b": [2]})),
            ("{\"a\":tru", json!({})),
            ("{\"a\":true", json!({"a": true})),
            ("{\"a\":[{\"b\":\"x", json!({"a": [{"b": "x"}]})),
            ("{\"a\":1,\"a\":2}", json!({"a": 2})),
            ("{\"a\\\"\":\"1\"}\n", json!({"a\"": "1"})),
        ] {
            assert_eq!(readable(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn non_objects_are_not_readable() {
        for text in ["", " ", "[", "[1]", "12", "\"{", "nul", "x", "{a", "{\"a\": x"] {
            assert_eq!(readable(text), None, "{text}");
        }
    }

    #[test]
    fn large_numbers_and_deep_nesting_are_handled() {
        let deep = format!("{{\"a\":{}", "[".repeat(5000));
        for text in
            ["{\"a\":123456789012345678901234567890}", "{\"a\":-9223372036854775809,\"b\":", "{\"a\":1e999}", &deep]
        {
            readable(text);
        }
    }

    #[test]
    fn text_has_a_limit() {
        let mut partial = Partial::default();
        partial.push(&"x".repeat(LIMIT)).unwrap();
        assert_eq!(partial.push("x"), Err(TooLong));
        assert_eq!(partial.into_text().len(), LIMIT);
    }

    proptest! {
        /// Wherever an object is truncated, its readable members are a prefix of it.
        #[test]
        fn readable_members_are_a_prefix(text in any::<String>(), other in "[a-z\"\\\\é😀]{0,8}", number in any::<i64>()) {
            let whole = json!({"text": text, "list": [{"other": other}, number], "last": true});
            let Value::Object(members) = &whole else { unreachable!() };
            let (json, mut partial) = (whole.to_string(), Partial::default());
            for letter in json.chars() {
                partial.push(letter.encode_utf8(&mut [0; 4])).unwrap();
                for (key, value) in partial.readable().unwrap() {
                    if let (Some(part), Some(whole)) = (value.as_str(), members[&key].as_str()) {
                        prop_assert!(whole.starts_with(part));
                    } else if key == "last" {
                        prop_assert_eq!(&value, &members[&key]);
                    }
                }
            }
            let read = partial.readable();
            prop_assert_eq!(read.as_ref(), Some(members));
        }
    }
}
