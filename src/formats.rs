//! Representations of calls, results and tools for clients and vendors. Pure functions.

pub mod alias;
pub mod cut;
pub mod definitions;
pub mod messages;
pub mod native;
pub mod session_prompt;
pub mod sse;
pub mod stream;

/// Returns a text on one line, with single spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
