//! Conversion between the outcome of a call and its part of the record.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::members::Members;
use super::present;
use toolpost_core::domain::outcome::FullOutput;
use toolpost_core::domain::{ContentBlock, Failure, JsonText, Outcome, outcome};
use toolpost_core::formats::native::Data;

/// Writes the outcome.
pub(super) fn write(out: &mut Vec<u8>, outcome: &Outcome) {
    let mut written = Members::begin(out);
    // Absent: the compact JSON of `structured`. A truncated output is no longer the text of the data.
    if outcome.structured_text.is_none() || outcome.full_output.is_some() {
        written.text("output", &outcome.output);
    }
    // Absent: one text block with the output.
    if !matches!(outcome.content.as_slice(), [ContentBlock::Text(text)] if *text == outcome.output) {
        written.value("content", &outcome.content);
    }
    match Data::of(outcome) {
        Some(Data::Text(text)) => written.json("structured", text.get()),
        Some(data) => written.value("structured", &data),
        None => {}
    }
    // Absent: the output is complete.
    written.non_default("whole", &outcome.full_output.as_deref());
    written.non_default("details", &outcome.details);
    written.non_default("error", &outcome.error);
    written.end();
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutcomeIn {
    output: Option<String>,
    content: Option<Vec<ContentBlock>>,
    #[serde(deserialize_with = "present")]
    structured: Option<Value>,
    whole: Option<FullOutput>,
    details: Map<String, Value>,
    error: Option<Failure>,
}

impl OutcomeIn {
    pub(super) fn decode(self) -> Outcome {
        let is_structured = self.output.is_none() || self.whole == Some(FullOutput::Structured);
        let output = match (self.output, &self.content, &self.structured) {
            (Some(output), _, _) => output,
            (None, _, Some(structured)) => structured.to_string(),
            (None, Some(content), None) => outcome::joined_text(content),
            (None, None, None) => String::new(),
        };
        Outcome {
            content: self.content.unwrap_or_else(|| vec![ContentBlock::Text(output.clone())]),
            details: self.details,
            structured_text: self.structured.as_ref().filter(|_| is_structured).map(JsonText::of),
            structured: self.structured.map(Arc::new),
            full_output: self.whole.map(Arc::new),
            metadata: Map::new(),
            error: self.error.map(|failure| Failure { text: output.clone(), ..failure }),
            output,
        }
    }
}
