//! Representations of calls, results and tools for clients and vendors. Pure functions.

use crate::domain::Call;
use crate::domain::call::CallFormat;

pub mod alias;
pub mod cut;
pub mod definitions;
pub mod mcp;
pub mod messages;
pub mod native;
pub mod session_prompt;
pub mod sse;
pub mod stream;

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
