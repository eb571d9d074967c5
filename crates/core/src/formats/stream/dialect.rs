//! Detection of the vendor of a stream, and dispatch to its parser.

use serde_json::Value;

use super::anthropic::Anthropic;
use super::calls::Calls;
use super::data::{Object, error_message, text};
use super::error::StreamError;
use super::gemini::Gemini;
use super::openai::Chat;
use super::responses::Responses;
use crate::domain::Vendor;

/// The parser of one vendor's events.
#[derive(Debug)]
pub(super) enum Dialect {
    OpenAi(Chat),
    OpenAiResponses(Responses),
    Anthropic(Anthropic),
    Gemini(Gemini),
}

impl Dialect {
    fn new(vendor: Vendor) -> Self {
        match vendor {
            Vendor::OpenAi => Self::OpenAi(Chat::default()),
            Vendor::OpenAiResponses => Self::OpenAiResponses(Responses::default()),
            Vendor::Anthropic => Self::Anthropic(Anthropic::default()),
            Vendor::Gemini => Self::Gemini(Gemini::default()),
        }
    }

    /// Selects the parser by the first event. Returns `None` if the event belongs to no message, so that the next event
    /// decides.
    pub(super) fn detect(event: &Object, expected: Option<Vendor>) -> Result<Option<Self>, StreamError> {
        match (shape_of(event), expected) {
            (Some(found), Some(expected)) if found != expected => Err(StreamError::OtherVendor { expected, found }),
            (None, None) if matches!(text(event, "type"), Some("ping" | "keepalive")) => Ok(None),
            (None, None) => Err(StreamError::UnknownShape),
            (Some(vendor), _) | (None, Some(vendor)) => Ok(Some(Self::new(vendor))),
        }
    }

    pub(super) fn vendor(&self) -> Vendor {
        match self {
            Self::OpenAi(_) => Vendor::OpenAi,
            Self::OpenAiResponses(_) => Vendor::OpenAiResponses,
            Self::Anthropic(_) => Vendor::Anthropic,
            Self::Gemini(_) => Vendor::Gemini,
        }
    }

    /// Handles an event of the most frequent kind without building a value, which is most of the cost of a stream.
    /// Returns `false` if [`Self::event`] must handle it.
    pub(super) fn frequent(&mut self, data: &[u8], calls: &mut Calls) -> bool {
        match self {
            Self::OpenAi(parser) => parser.frequent(data, calls),
            Self::OpenAiResponses(parser) => parser.frequent(data, calls),
            Self::Anthropic(parser) => parser.frequent(data, calls),
            Self::Gemini(_) => false,
        }
    }

    /// Returns `true` if an event that is not valid JSON certainly concerns no call: models write invalid characters
    /// into texts.
    pub(super) fn is_foreign(&self, data: &[u8]) -> bool {
        matches!(self, Self::OpenAiResponses(_)) && super::responses::is_foreign(data)
    }

    pub(super) fn event(&mut self, event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        match self {
            Self::OpenAi(parser) => parser.event(event, calls),
            Self::OpenAiResponses(parser) => parser.event(event, calls),
            Self::Anthropic(parser) => parser.event(event, calls),
            Self::Gemini(parser) => parser.event(event, calls),
        }
    }

    /// Handles `[DONE]`, which only OpenAI defines; other vendors' parsers ignore it.
    pub(super) fn done(&mut self, calls: &mut Calls) -> Result<(), StreamError> {
        match self {
            Self::OpenAi(parser) => parser.done(calls),
            _ => Ok(()),
        }
    }
}

/// Detects the vendor of an event, if it is unambiguous.
fn shape_of(event: &Object) -> Option<Vendor> {
    let has = |key: &str| event.contains_key(key);
    let object = text(event, "object").unwrap_or_default();
    match text(event, "type").unwrap_or_default() {
        "message_start" | "message_delta" | "message_stop" | "message" => Some(Vendor::Anthropic),
        kind if kind.starts_with("content_block_") => Some(Vendor::Anthropic),
        kind if kind.starts_with("response.") => Some(Vendor::OpenAiResponses),
        _ if has("choices") || object.starts_with("chat.completion") => Some(Vendor::OpenAi),
        _ if object == "response" => Some(Vendor::OpenAiResponses),
        _ if has("candidates") || has("promptFeedback") || has("usageMetadata") => Some(Vendor::Gemini),
        _ => None,
    }
}

/// Returns the message of a provider's own error, which all vendors put in nearly the same place.
pub(super) fn error_in(event: &Object) -> Option<String> {
    let error =
        event.get("error").filter(|error| error.is_object() || error.as_str().is_some_and(|text| !text.is_empty()));
    match error {
        // A successful response has an `error` as well, which is `null`.
        Some(error) => Some(error_message(error)),
        None if text(event, "type") == Some("error") => Some(error_message(&Value::Object(event.clone()))),
        None => None,
    }
}
