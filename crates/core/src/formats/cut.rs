//! Limits for the size of events: long texts are truncated and images omitted, each with the URL of the full content
//! (docs/reference/contract.md, section 6).

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::domain::{ContentBlock, Failure};

/// Maximum length of a text in an event, in characters.
pub const LONGEST_TEXT: usize = 8000;

/// Returns the first [`LONGEST_TEXT`] characters.
#[must_use]
pub fn text(text: &str) -> &str {
    if !is_long(text) {
        return text;
    }
    text.char_indices().nth(LONGEST_TEXT).map_or(text, |(end, _)| &text[..end])
}

/// Returns `true` if a text is truncated.
#[must_use]
pub fn is_long(text: &str) -> bool {
    // A text has at most as many characters as bytes.
    text.len() > LONGEST_TEXT && text.chars().nth(LONGEST_TEXT).is_some()
}

/// Returns `true` if any text in the value is truncated.
#[must_use]
pub fn has_long_text(value: &Value) -> bool {
    match value {
        Value::String(text) => is_long(text),
        Value::Array(items) => items.iter().any(has_long_text),
        Value::Object(members) => members.values().any(has_long_text),
        _ => false,
    }
}

/// A value with its long texts truncated.
#[derive(Debug, Clone, Copy)]
pub struct ShortValue<'a>(pub &'a Value);

impl Serialize for ShortValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(long) => serializer.serialize_str(text(long)),
            Value::Array(items) => serializer.collect_seq(items.iter().map(ShortValue)),
            Value::Object(members) => ShortMap(members).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

/// An object with its long texts truncated.
#[derive(Debug, Clone, Copy)]
pub struct ShortMap<'a>(pub &'a Map<String, Value>);

impl Serialize for ShortMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, ShortValue(value))))
    }
}

/// A failure with its long texts truncated.
#[derive(Debug, Clone, Copy)]
pub struct ShortFailure<'a>(pub &'a Failure);

impl Serialize for ShortFailure<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Failure { code, message, retryable, retry_after_ms, details, text: _, not_sent: _ } = self.0;
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("code", code)?;
        map.serialize_entry("message", text(message))?;
        map.serialize_entry("retryable", retryable)?;
        map.serialize_entry("retry_after_ms", retry_after_ms)?;
        map.serialize_entry("details", &details.as_ref().map(ShortValue))?;
        map.end()
    }
}

/// Content blocks with long texts truncated and images omitted.
#[derive(Debug, Clone, Copy)]
pub struct ShortContent<'a> {
    /// The call with this result, for the URL of the full content; `None` if the full content is not stored.
    pub call: Option<Uuid>,
    /// The blocks.
    pub blocks: &'a [ContentBlock],
}

impl Serialize for ShortContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.blocks.iter().enumerate().map(|(index, block)| {
            let url = || self.call.map(|call| format!("/tool-calls/{call}/content/{index}"));
            match block {
                ContentBlock::Text(whole) if is_long(whole) => {
                    ShortBlock::Text { text: text(whole), truncated: true, url: url() }
                }
                ContentBlock::Image { data, mime_type } => {
                    ShortBlock::Image { mime_type, omitted: true, bytes: decoded_length(data), url: url() }
                }
                ContentBlock::Other(members) => ShortBlock::Other(ShortMap(members)),
                whole @ ContentBlock::Text(_) => ShortBlock::Whole(whole),
            }
        }))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ShortBlock<'a> {
    Text {
        text: &'a str,
        truncated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    Image {
        mime_type: &'a str,
        omitted: bool,
        bytes: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    #[serde(untagged)]
    Other(ShortMap<'a>),
    #[serde(untagged)]
    Whole(&'a ContentBlock),
}

/// Returns the decoded length of a base64 text, in bytes.
fn decoded_length(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_truncated_at_characters() {
        let long = "ä".repeat(LONGEST_TEXT + 1);
        assert_eq!(text(&long).chars().count(), LONGEST_TEXT);
        let fits = "ä".repeat(LONGEST_TEXT);
        assert_eq!(text(&fits), fits);
        assert!(!is_long(&fits));
        let value = serde_json::json!({"a": [long, 1]});
        let cut = serde_json::to_value(ShortValue(&value)).unwrap();
        assert_eq!(cut["a"][0].as_str().unwrap().chars().count(), LONGEST_TEXT);
        assert_eq!(cut["a"][1], 1);
    }

    #[test]
    fn images_are_omitted_with_size_and_url() {
        let blocks = [ContentBlock::Image { data: "AAAA".into(), mime_type: "image/png".into() }];
        let shown = serde_json::to_value(ShortContent { call: Some(Uuid::nil()), blocks: &blocks }).unwrap();
        assert_eq!(shown[0]["omitted"], true);
        assert_eq!(shown[0]["bytes"], 3);
        assert_eq!(shown[0]["url"], "/tool-calls/00000000-0000-0000-0000-000000000000/content/0");
    }
}
