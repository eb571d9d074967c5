//! Representations of calls, results and tools for clients and vendors. Pure functions.

use crate::domain::call::CallFormat;
use crate::domain::{Call, ContentBlock, Outcome};

pub mod alias;
pub mod cut;
pub mod definitions;
pub mod mcp;
pub mod messages;
pub mod native;
pub mod session_prompt;
pub mod sse;
pub mod stream;

/// What a model reads in place of a blank output. Some vendors reject blank texts.
pub const EMPTY_OUTPUT: &str = "[the output is empty]";

/// Returns `true` for the result of a tool that has succeeded without any output.
#[must_use]
pub fn is_blank(outcome: &Outcome) -> bool {
    !outcome.is_error()
        && outcome.output.trim().is_empty()
        && outcome.content.iter().all(|block| matches!(block, ContentBlock::Text(text) if text.trim().is_empty()))
}

/// Renders the JSON of an ended call in advance, in the format of its caller.
pub fn prerender(call: &Call) {
    match call.written.format() {
        CallFormat::Native => native::ToolCall::prerender(call),
        CallFormat::Mcp => mcp::prerender(call),
    }
}

/// Returns a text on one line, with single spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
