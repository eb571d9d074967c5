//! The prompt of a session: Markdown with its tools, the rules for calls and the pending calls.

use std::collections::HashMap;
use std::fmt::Write;

use super::definitions::prompt;
use super::one_line;
use crate::domain::{Call, Status, ToolDefinition};

/// Number of calls of a session, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = SessionCounts)]
pub struct Counts {
    /// Number of all calls.
    pub total: usize,
    /// Number of calls that have not ended.
    pub pending: usize,
    /// Number of successful calls.
    pub succeeded: usize,
    /// Number of failed calls.
    pub failed: usize,
}

impl Counts {
    /// Counts the given calls.
    #[must_use]
    pub fn of(calls: &[Call]) -> Self {
        let count = |is: fn(Status) -> bool| calls.iter().filter(|call| is(call.status)).count();
        Self {
            total: calls.len(),
            pending: count(|status| !status.is_terminal()),
            succeeded: count(|status| status == Status::Success),
            failed: count(|status| status == Status::Error),
        }
    }
}

/// Maximum length of the arguments of a pending call, in characters.
const MAX_ARGUMENT_CHARS: usize = 300;

/// Renders the tools of a session, the rules for calls, and the pending calls.
#[must_use]
pub fn render(tools: &[&ToolDefinition], counts: Counts, pending: &[&Call]) -> String {
    let mut text = match tools.is_empty() {
        true => "# Available Tools\n\nYou have access to no tools.\n".to_owned(),
        false => prompt::render(tools.iter().copied(), &HashMap::new()),
    };
    let (asynchronous, synchronous): (Vec<&ToolDefinition>, Vec<&ToolDefinition>) =
        tools.iter().partition(|tool| tool.asynchronous);
    text.push_str("\n# Tool Call Rules\n\n");
    rule(
        &mut text,
        "Synchronous tools",
        &synchronous,
        "the result of a call follows it directly. Wait for the result before you rely on it.",
    );
    rule(
        &mut text,
        "Asynchronous tools",
        &asynchronous,
        "a call is accepted immediately and runs in the background; its result arrives later. Do not repeat the call for \
         the same work, and do not invent the result: continue with something else, or end your turn.",
    );
    text.push_str("- The result of a failed call starts with \"Error\": read it, and correct the call.\n");
    let Counts { total, pending: waiting, succeeded, failed } = counts;
    let _ = write!(
        text,
        "\n# Tool Call Status\n\n{total} call(s) so far: {succeeded} succeeded, {failed} failed, {waiting} pending.\n"
    );
    if !pending.is_empty() {
        text.push_str("\n## Pending Calls\n\n");
        for call in pending {
            describe(&mut text, call);
        }
    }
    text
}

// Writing to a `String` cannot fail, here and below.
fn rule(text: &mut String, kind: &str, tools: &[&ToolDefinition], rule: &str) {
    if !tools.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "- {kind} ({}): {rule}", names.join(", "));
    }
}

fn describe(text: &mut String, call: &Call) {
    let phase = serde_json::to_value(call.phase).unwrap_or_default();
    let (status, phase) = (call.status.as_str(), phase.as_str().unwrap_or_default().to_owned());
    let id = call.id.to_string();
    let own = if *call.call_id == *id { String::new() } else { format!(", {}", one_line(&call.call_id)) };
    let _ = write!(text, "- {} (id {id}{own}): {} [{status}, {phase}]", call.name, one_line(&call.title));
    if let Some(tip) = &call.tip {
        let _ = write!(text, " - {}", one_line(tip));
    }
    if let Some(progress) = &call.progress {
        let _ = match progress.total {
            Some(total) => write!(text, " ({} of {total})", progress.current),
            None => write!(text, " ({})", progress.current),
        };
    }
    let arguments = crate::domain::json::shorten(call.arguments_text.get(), MAX_ARGUMENT_CHARS);
    let _ = writeln!(text, "\n  Arguments: {}", one_line(&arguments));
}
