//! What hooks answer, and how a webhook's answer is read.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::{ContentBlock, decode, json};

/// Longest reason that is repeated to a model, in characters.
const LONGEST_REASON: usize = 2000;

/// What a hook says before a run.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeDecision {
    /// Nothing.
    Continue,
    /// These arguments take the place of those of the same names.
    Arguments(Map<String, Value>),
    /// The call is not to run; maybe why. Nobody else is asked.
    Block(Option<String>),
}

/// What a hook makes of a result that is to be stored. What is `None` stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewrite {
    /// The text; blocks that are no texts stay.
    pub output: Option<String>,
    /// The blocks, and with them the text.
    pub content: Option<Vec<ContentBlock>>,
    /// The details for people.
    pub details: Option<Map<String, Value>>,
    /// Merged into the call's.
    pub metadata: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BeforeResponse {
    arguments: Option<Map<String, Value>>,
    block: bool,
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PersistResponse {
    output: Option<String>,
    content: Option<Vec<ContentBlock>>,
    details: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
}

impl BeforeDecision {
    /// Reads a webhook's answer.
    ///
    /// # Errors
    /// What it should be. Nothing of it is repeated.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let answer: BeforeResponse = read(body)
            .ok_or("its answer is neither empty nor {\"arguments\": {…}} nor {\"block\": true, \"reason\": \"…\"}")?;
        Ok(match answer {
            BeforeResponse { block: true, reason, .. } => Self::Block(reason).bounded(),
            BeforeResponse { arguments: Some(arguments), .. } if !arguments.is_empty() => Self::Arguments(arguments),
            _ => Self::Continue,
        })
    }

    /// The same with a reason that a model can be shown.
    pub(super) fn bounded(self) -> Self {
        let Self::Block(reason) = self else { return self };
        let reason = reason.map(|reason| json::shorten(reason.trim(), LONGEST_REASON));
        Self::Block(reason.filter(|reason| !reason.is_empty()))
    }
}

impl Rewrite {
    /// Reads a webhook's answer.
    ///
    /// # Errors
    /// What it should be. Nothing of it is repeated.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let answer: PersistResponse =
            read(body).ok_or("its answer is neither empty nor an object of output, content, details and metadata")?;
        let PersistResponse { output, content, details, metadata } = answer;
        Ok(Self { output, content, details, metadata: metadata.unwrap_or_default() })
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { output, content, details, metadata } = self;
        output.is_none() && content.is_none() && details.is_none() && metadata.is_empty()
    }
}

/// An empty answer is one that says nothing.
fn read<T: Default + serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Some(T::default());
    }
    let value = json::parse(body).ok()?;
    // A derived shape would take an array for its members in order.
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
