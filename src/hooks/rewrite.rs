//! Changes to the stored form of an ended call. Text removed from the output is not stored in any other form.

use std::sync::Arc;

use super::response::Rewrite;
use crate::domain::call::CallRecord;
use crate::domain::{ContentBlock, Outcome, json, outcome};

/// Stored instead of a result whose persist hook failed.
const WITHHELD: &str = "[The result is not stored: a tool_result_persist hook failed]";

impl Rewrite {
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
