//! A call as text.

use crate::cli::print;
use crate::cli::remote::{CallView, content_lines};

/// Maximum length of a property, in characters.
const LONGEST: usize = 500;

/// Formats a call, the arguments and the output last.
pub fn text(call: &CallView) -> String {
    let facts: Vec<(&str, String)> =
        facts(call).into_iter().map(|(name, fact)| (name, print::one_line(&fact, LONGEST))).collect();
    let arguments = call.effective_arguments.as_ref().unwrap_or(&call.arguments);
    let mut text = format!("{}\n\nArguments:\n{arguments:#}", print::facts(&facts));
    if call.status.is_terminal() {
        let lines = content_lines(&call.content);
        let lines: Vec<String> = lines.iter().map(|line| visible(line)).collect();
        text.push_str(&format!("\n\nOutput:\n{}", lines.join("\n")));
    }
    text
}

/// Returns a line without control characters other than tabs, because outputs of tools are not trusted.
fn visible(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_control() || *letter == '\t').collect()
}

fn facts(call: &CallView) -> Vec<(&'static str, String)> {
    let mut facts = vec![("id", call.id.to_string()), ("tool", call.name.clone())];
    facts.extend(call.session.clone().map(|session| ("session", session)));
    facts.push(("status", format!("{}, {}", call.status.as_str(), call.phase)));
    facts.extend(call.error.as_ref().map(|error| ("error", format!("{}: {}", error.code, error.message))));
    facts.push(("accepted", call.created_at.to_string()));
    facts.extend(call.started_at.map(|time| ("started", time.to_string())));
    facts.extend(call.ended_at.map(|time| ("ended", time.to_string())));
    facts.push(("queued", format!("{} ms", call.queued_ms)));
    facts.extend(call.started_at.and(call.duration_ms).map(|millis| ("duration", format!("{millis} ms"))));
    facts.push(("attempts", call.attempts.to_string()));
    if call.cached {
        facts.push(("cached", "yes".to_owned()));
    }
    let coerced = call.coerced.iter().map(|one| format!("{} {} → {}", one.pointer, one.from, one.to));
    let coerced: Vec<String> = coerced.collect();
    if !coerced.is_empty() {
        facts.push(("coerced", coerced.join(", ")));
    }
    facts.extend(call.approval.as_ref().map(|approval| ("approval", print::word(&approval.status))));
    facts.push(("node", call.node.clone()));
    facts
}
