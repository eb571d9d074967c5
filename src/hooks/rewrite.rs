//! Changing the image of an ended call that is stored. What is taken out of the text is kept in no other form.

use std::sync::Arc;

use super::response::Rewrite;
use crate::domain::call::CallRecord;
use crate::domain::{ContentBlock, Outcome, json, outcome};

/// What is stored instead of a result that a hook should have looked at and could not.
const WITHHELD: &str = "[The result is not stored: a tool_result_persist hook failed]";

impl Rewrite {
    /// Changes what is stored of an ended call.
    pub(super) fn apply(self, call: &mut CallRecord) {
        let Self { output, content, details, metadata } = self;
        json::merge_deep(&mut call.metadata, metadata);
        let Some(outcome) = &mut call.outcome else { return };
        let outcome = Arc::make_mut(outcome);
        match (output, content) {
            // The text is what the blocks say.
            (_, Some(content)) => set_content(outcome, content),
            (Some(output), None) => set_text(outcome, output),
            (None, None) => {}
        }
        if let Some(details) = details {
            outcome.details = details;
        }
    }
}

/// Stores nothing of the result.
pub fn withhold(call: &mut CallRecord) {
    let Some(outcome) = &mut call.outcome else { return };
    let outcome = Arc::make_mut(outcome);
    outcome.details.clear();
    set_content(outcome, vec![ContentBlock::Text(WITHHELD.to_owned())]);
}

/// Puts one text in the place of all texts; other blocks stay.
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
