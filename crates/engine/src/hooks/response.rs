//! The responses of hooks: how webhooks send them, and how they change the stored form of an ended call. Text removed
//! from the output is not stored in any other form.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::{ContentBlock, Outcome, decode, json, outcome};

/// Maximum length of a reason shown to a model, in characters.
const MAX_REASON: usize = 2000;

/// Stored instead of a result whose persist hook failed.
const WITHHELD: &str = "[The result is not stored: a tool_result_persist hook failed]";

/// The response of a before-hook.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeDecision {
    /// The call continues unchanged.
    Continue,
    /// These arguments replace the call's arguments of the same names.
    Arguments(Map<String, Value>),
    /// The call does not run, for this reason. Later hooks are skipped.
    Block(Option<String>),
}

/// The response of a persist hook. Members that are `None` stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rewrite {
    /// Replaces the text. Blocks of other types stay.
    pub output: Option<String>,
    /// Replaces the content blocks, and with them the text.
    pub content: Option<Vec<ContentBlock>>,
    /// Replaces the details.
    pub details: Option<Map<String, Value>>,
    /// Merged into the metadata of the call.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Map<String, Value>,
}

/// Deserializes an object; `null` is empty.
fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BeforeResponse {
    arguments: Option<Map<String, Value>>,
    block: bool,
    reason: Option<String>,
}

impl BeforeDecision {
    /// Parses the response of a webhook.
    ///
    /// # Errors
    /// Returns the expected form. It does not repeat the response, which may contain secrets.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let answer: BeforeResponse = read(body)
            .ok_or("the response must be empty, {\"arguments\": {…}} or {\"block\": true, \"reason\": \"…\"}")?;
        Ok(match answer {
            BeforeResponse { block: true, reason, .. } => Self::Block(reason).bounded(),
            BeforeResponse { arguments: Some(arguments), .. } if !arguments.is_empty() => Self::Arguments(arguments),
            _ => Self::Continue,
        })
    }

    /// Shortens the reason to the length that a model can be shown.
    pub(super) fn bounded(self) -> Self {
        let Self::Block(reason) = self else { return self };
        let reason = reason.map(|reason| json::shorten(reason.trim(), MAX_REASON));
        Self::Block(reason.filter(|reason| !reason.is_empty()))
    }
}

impl Rewrite {
    /// Parses the response of a webhook.
    ///
    /// # Errors
    /// Returns the expected form. It does not repeat the response, which may contain secrets.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        read(body).ok_or_else(|| {
            "the response must be empty or an object with output, content, details and metadata".to_owned()
        })
    }

    /// Returns `true` if the rewrite changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { output, content, details, metadata } = self;
        output.is_none() && content.is_none() && details.is_none() && metadata.is_empty()
    }

    /// Applies the rewrite to the stored form of an ended call.
    pub(super) fn apply(self, call: &mut CallRecord) {
        let Self { output, content, details, metadata } = self;
        json::merge_deep(&mut call.metadata, metadata);
        let Some(outcome) = &mut call.outcome else { return };
        let outcome = Arc::make_mut(outcome);
        match (output, content) {
            // The blocks determine the text.
            (_, Some(content)) => set_content(outcome, content),
            (Some(output), None) => set_text(outcome, output),
            (None, None) => {}
        }
        if let Some(details) = details {
            outcome.details = details;
        }
    }
}

/// Removes the result from the stored form of a call.
pub fn withhold(call: &mut CallRecord) {
    let Some(outcome) = &mut call.outcome else { return };
    let outcome = Arc::make_mut(outcome);
    outcome.details.clear();
    set_content(outcome, vec![ContentBlock::Text(WITHHELD.to_owned())]);
}

/// Replaces all text blocks with one; other blocks stay.
pub(super) fn set_text(outcome: &mut Outcome, text: String) {
    let others =
        std::mem::take(&mut outcome.content).into_iter().filter(|block| !matches!(block, ContentBlock::Text(_)));
    let content = std::iter::once(ContentBlock::Text(text)).chain(others).collect();
    set_content(outcome, content);
}

fn set_content(outcome: &mut Outcome, content: Vec<ContentBlock>) {
    outcome.output = outcome::joined_text(&content);
    outcome.content = content;
    (outcome.structured, outcome.structured_text, outcome.full_output) = (None, None, None);
    if let Some(error) = &mut outcome.error {
        error.text.clone_from(&outcome.output);
        error.message.clone_from(&outcome.output);
        error.details = None;
    }
}

/// Parses a response. An empty body is the default response.
fn read<T: Default + serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Some(T::default());
    }
    let value = json::parse(body).ok()?;
    // A derived deserializer would accept an array of the members in order.
    if !value.is_object() {
        return None;
    }
    decode::read(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_hook_returns_nothing_arguments_or_a_block() {
        let read = |text: &str| BeforeDecision::read(text.as_bytes());
        for nothing in ["", " \n", "{}", "{\"block\":false}", "{\"arguments\":{}}", "{\"arguments\":null}"] {
            assert_eq!(read(nothing), Ok(BeforeDecision::Continue), "{nothing}");
        }
        let arguments = serde_json::json!({"a": [1]}).as_object().unwrap().clone();
        assert_eq!(read("{\"arguments\":{\"a\":[1]}}"), Ok(BeforeDecision::Arguments(arguments)));
        let blocked = |reason: Option<&str>| Ok(BeforeDecision::Block(reason.map(str::to_owned)));
        assert_eq!(read("{\"block\":true,\"arguments\":{\"a\":1}}"), blocked(None));
        assert_eq!(read("{\"block\":true,\"reason\":\" no \"}"), blocked(Some("no")));
        assert_eq!(read("{\"block\":true,\"reason\":\"  \"}"), blocked(None));
    }

    #[test]
    fn any_other_response_is_invalid_and_not_retried() {
        for bad in ["secret", "[]", "\"secret\"", "{\"arguement\":{}}", "{\"arguments\":[]}", "{\"block\":\"secret\"}"]
        {
            assert!(!BeforeDecision::read(bad.as_bytes()).unwrap_err().contains("secret"), "{bad}");
        }
        for bad in ["null", "{\"output\":1}", "{\"content\":[{\"text\":\"x\"}]}", "{\"structured\":1}", "[\"x\"]"] {
            Rewrite::read(bad.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn rewrite_contains_only_changed_members() {
        assert!(Rewrite::read(b"{}").unwrap().is_empty());
        let rewrite = Rewrite::read(br#"{"content":[{"type":"text","text":"x"}],"metadata":{"tag":1}}"#).unwrap();
        assert_eq!(rewrite.content, Some(vec![ContentBlock::Text("x".into())]));
        assert_eq!((rewrite.output, rewrite.metadata["tag"].as_i64()), (None, Some(1)));
    }
}
