//! The outcome of a call: for the model, for programs and for people.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Failure, JsonText, image_data};
use crate::described_as;

/// A typed block of the content shown to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Plain text.
    Text(String),
    /// An image, base64 (RFC 4648, section 4) in `data`.
    Image {
        /// The encoded bytes.
        data: String,
        /// The media type, for example `image/png`.
        mime_type: String,
    },
    /// A block of another type, which is passed on unchanged. Its `type` is a string.
    Other(Map<String, Value>),
}

described_as!(ContentBlock as "ContentBlock", [], {
    "type": "object", "description": "A typed block: a text, an image as base64, or any other.", "required": ["type"],
    "anyOf": [
        {"required": ["text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
        {
            "required": ["data", "mime_type"],
            "properties": {
                "type": {"const": "image"},
                "data": {"type": "string", "contentEncoding": "base64", "pattern": "^([A-Za-z0-9+/]{4})*$"},
                "mime_type": {"type": "string"}
            }
        },
        {"properties": {"type": {"type": "string", "not": {"enum": ["text", "image"]}}}}
    ]
});

impl ContentBlock {
    /// Converts a typed block. Returns `None` if it has no string `type`, or is a text block without text. An invalid
    /// image becomes a text block with the reason, because the other blocks are still valid.
    #[must_use]
    pub fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut block) = value else { return None };
        let text_of = |block: &mut Map<String, Value>, key: &str| match block.get_mut(key) {
            Some(Value::String(text)) => Some(std::mem::take(text)),
            _ => None,
        };
        match block.get("type")?.as_str()? {
            "text" => text_of(&mut block, "text").map(Self::Text),
            "image" => {
                let mime_type = ["mime_type", "mimeType"].into_iter().find_map(|key| text_of(&mut block, key));
                let data = text_of(&mut block, "data").ok_or("it has no data");
                Some(match data.and_then(|data| image_data::read(data, mime_type)) {
                    Ok((data, mime_type)) => Self::Image { data, mime_type },
                    Err(reason) => Self::left_out_image(reason),
                })
            }
            _ => Some(Self::Other(block)),
        }
    }

    /// Returns the text block that replaces an image, with the reason.
    #[must_use]
    pub fn left_out_image(reason: &str) -> Self {
        Self::Text(format!("[Image left out: {reason}]"))
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "lowercase")]
        enum TaggedBlock<'a> {
            Text { text: &'a str },
            Image { data: &'a str, mime_type: &'a str },
        }
        match self {
            Self::Text(text) => TaggedBlock::Text { text }.serialize(serializer),
            Self::Image { data, mime_type } => TaggedBlock::Image { data, mime_type }.serialize(serializer),
            Self::Other(block) => block.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(value).ok_or_else(|| serde::de::Error::custom("not a typed content block"))
    }
}

/// The text of a result before truncation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullOutput {
    /// The compact JSON of `structured`.
    Structured,
    /// The texts of all text blocks, in order.
    Texts(Vec<FullText>),
}

/// A text block before truncation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullText {
    /// The index in `content` of the truncated block; `None` if no part of the text is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<usize>,
    /// The full text.
    pub text: String,
}

/// The result of a call, independent of its executor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The text for the model: the text blocks of `content`, joined by newlines.
    pub output: String,
    /// The content for the model.
    pub content: Vec<ContentBlock>,
    /// The result as data, for programs.
    pub structured: Option<Arc<Value>>,
    /// The compact JSON of `structured`, if that is the output. It is serialized once.
    pub structured_text: Option<JsonText>,
    /// The texts before truncation, if the output was truncated.
    pub full_output: Option<Arc<FullOutput>>,
    /// Data for people, which is never shown to a model.
    pub details: Map<String, Value>,
    /// Members that are merged into the metadata of the call.
    pub metadata: Map<String, Value>,
    /// The failure, if the call failed.
    pub error: Option<Failure>,
}

impl Outcome {
    /// Creates a success with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let output = text.into();
        Self { content: vec![ContentBlock::Text(output.clone())], output, ..Self::default() }
    }

    /// Creates a success with data: the value for programs, and its compact JSON for the model.
    #[must_use]
    pub fn data(value: Arc<Value>) -> Self {
        let text = JsonText::of(&value);
        Self::data_as(value, text)
    }

    /// Creates a success with data whose compact JSON is already known.
    #[must_use]
    pub fn data_as(value: Arc<Value>, text: JsonText) -> Self {
        let shown = Self::text(text.get());
        Self { structured: Some(value), structured_text: Some(text), ..shown }
    }

    /// Creates a success with typed blocks. `output` is the text of the text blocks.
    #[must_use]
    pub fn blocks(content: Vec<ContentBlock>) -> Self {
        Self { output: joined_text(&content), content, ..Self::default() }
    }

    /// Creates an error. The text of the failure is the output.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        let text = failure.text.clone();
        Self { error: Some(failure), ..Self::text(text) }
    }

    /// Replaces the tool's own name in the text of a failure with the name that the caller used.
    pub(super) fn name_tool(&mut self, name: &str, called_as: &str) {
        let Some(failure) = &mut self.error else { return };
        let Some(renamed) = failure.name_tool(name, called_as) else { return };
        let rename = |text: &mut String| {
            if text.get(renamed.clone()).is_some_and(|found| found == name) {
                text.replace_range(renamed.clone(), called_as);
            }
        };
        rename(&mut self.output);
        if let Some(ContentBlock::Text(text)) = self.content.first_mut() {
            rename(text);
        }
        if let Some(FullOutput::Texts(texts)) = self.full_output.as_mut().map(Arc::make_mut)
            && let Some(first) = texts.first_mut()
        {
            rename(&mut first.text);
        }
    }

    /// Returns `true` if the call failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the output without truncation.
    #[must_use]
    pub fn whole_output(&self) -> Cow<'_, str> {
        match self.full_output.as_deref() {
            None => self.output.as_str().into(),
            Some(FullOutput::Structured) => self.data_text(),
            Some(FullOutput::Texts(texts)) => match texts.as_slice() {
                [one] => one.text.as_str().into(),
                texts => texts.iter().map(|whole| whole.text.as_str()).collect::<Vec<_>>().join("\n").into(),
            },
        }
    }

    /// Returns the full text of a truncated block of `content`, or `None` if the block was not truncated.
    #[must_use]
    pub fn whole_block(&self, number: usize) -> Option<Cow<'_, str>> {
        match self.full_output.as_deref()? {
            FullOutput::Structured => (number == 0).then(|| self.data_text()),
            FullOutput::Texts(texts) => {
                texts.iter().find(|whole| whole.block == Some(number)).map(|whole| whole.text.as_str().into())
            }
        }
    }

    pub(super) fn data_text(&self) -> Cow<'_, str> {
        match (&self.structured_text, &self.structured) {
            (Some(text), _) => text.get().into(),
            (None, Some(value)) => value.to_string().into(),
            (None, None) => "".into(),
        }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::failed(failure)
    }
}

/// Returns the texts of the text blocks, joined by newlines.
#[must_use]
pub fn joined_text(content: &[ContentBlock]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_round_trip() {
        for block in [
            serde_json::json!({"type": "text", "text": "a"}),
            serde_json::json!({"type": "image", "data": "AA==", "mime_type": "image/png"}),
            serde_json::json!({"type": "resource", "uri": "x:y"}),
        ] {
            let read: ContentBlock = serde_json::from_value(block.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), block);
        }
        assert_eq!(ContentBlock::from_value(serde_json::json!({"text": "a"})), None);
    }
}
