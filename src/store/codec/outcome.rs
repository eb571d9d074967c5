//! Between the outcome of a call and its part of the record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::present;
use crate::domain::outcome::Whole;
use crate::domain::{ContentBlock, Failure, Outcome, json, outcome};
use crate::formats::data::Data;

#[derive(Serialize)]
pub(super) struct OutcomeOut<'a> {
    /// Absent: the compact JSON of `structured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    /// Absent: one text block with the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a [ContentBlock]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<Data<'a>>,
    /// Absent: the output is the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<&'a Whole>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

#[derive(Deserialize)]
pub(super) struct OutcomeIn {
    output: Option<String>,
    content: Option<Vec<ContentBlock>>,
    #[serde(default, deserialize_with = "present")]
    structured: Option<Value>,
    whole: Option<Whole>,
    #[serde(default)]
    details: Map<String, Value>,
    error: Option<Failure>,
}

impl<'a> From<&'a Outcome> for OutcomeOut<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let only_text = matches!(outcome.content.as_slice(), [ContentBlock::Text(text)] if *text == outcome.output);
        Self {
            // What was cut is no longer the data's own text.
            output: (outcome.structured_text.is_none() || outcome.whole.is_some()).then_some(outcome.output.as_str()),
            content: (!only_text).then_some(outcome.content.as_slice()),
            structured: Data::of(outcome),
            whole: outcome.whole.as_deref(),
            details: &outcome.details,
            error: outcome.error.as_ref(),
        }
    }
}

impl OutcomeIn {
    pub(super) fn decode(self) -> Outcome {
        let is_structured = self.output.is_none() || self.whole == Some(Whole::Structured);
        let output = match (self.output, &self.content, &self.structured) {
            (Some(output), _, _) => output,
            (None, _, Some(structured)) => structured.to_string(),
            (None, Some(content), None) => outcome::joined_text(content),
            (None, None, None) => String::new(),
        };
        Outcome {
            content: self.content.unwrap_or_else(|| vec![ContentBlock::Text(output.clone())]),
            details: self.details,
            structured_text: self.structured.as_ref().filter(|_| is_structured).map(json::text_of),
            structured: self.structured.map(Arc::new),
            whole: self.whole.map(Arc::new),
            metadata: Map::new(),
            error: self.error.map(|failure| Failure { text: output.clone(), ..failure }),
            output,
        }
    }
}
