//! Calls with approvals as text, from the database or from a service.

use serde_json::Value;
use uuid::Uuid;

use crate::cli::error::CliError;
use crate::cli::print;
use crate::cli::remote::CallView;
use crate::domain::json::pointer_token;
use crate::domain::{Approval, Call};

/// Maximum length of arguments in the table, in characters.
const LONGEST: usize = 60;
/// Minimum length of an abbreviated digest, without `sha256:`.
const SHORTEST_DIGEST: usize = 8;

/// A call that needs approval.
#[derive(Debug, Clone, Copy)]
pub struct CallToDecide<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub arguments: Option<&'a Value>,
    pub approval: &'a Approval,
}

impl<'a> CallToDecide<'a> {
    /// Returns a stored call, if it needs approval.
    pub fn of(call: &'a Call) -> Option<Self> {
        let (approval, arguments) = (call.approval.as_deref()?, call.effective_arguments.as_deref());
        Some(Self { id: call.id, name: &call.name, arguments, approval })
    }

    /// Returns a call of a service, if it needs approval.
    pub fn of_service(call: &'a CallView) -> Option<Self> {
        let (approval, arguments) = (call.approval.as_ref()?, call.effective_arguments.as_ref());
        Some(Self { id: call.id, name: &call.name, arguments, approval })
    }

    /// Prints the differences between the arguments and their replacement.
    pub fn note_changes(&self, new: Option<&Value>) {
        if let (Some(new), Some(old)) = (new, self.arguments) {
            difference("", Some(old), Some(new)).iter().for_each(|line| print::note(line));
        }
    }

    /// Returns the digest of the approval if `given` abbreviates it, and otherwise what was given.
    pub fn full_digest(&self, given: &str) -> String {
        full_digest(given, &self.approval.digest)
    }
}

/// Returns the error for a call without an approval.
pub fn not_needed() -> CliError {
    CliError::usage("the call needs no approval")
}

/// Formats calls as a table.
pub fn table<'a>(calls: impl Iterator<Item = CallToDecide<'a>>) -> String {
    let rows = calls.map(|CallToDecide { id, name, arguments, approval }| {
        vec![
            id.to_string(),
            print::one_line(name, 32),
            arguments.map_or_else(String::new, |value| print::one_line(&value.to_string(), LONGEST)),
            short(&approval.digest),
            format!("{}/{}", approval.decisions.len(), approval.min_approvals),
            approval.expires_at.to_string(),
        ]
    });
    print::table(&["ID", "TOOL", "ARGUMENTS", "DIGEST", "DECISIONS", "EXPIRES"], rows, usize::MAX)
}

/// Formats one call with its approval, the arguments last.
pub fn details(CallToDecide { id, name, arguments, approval }: &CallToDecide<'_>) -> String {
    let mut facts = vec![
        ("id", id.to_string()),
        ("tool", print::one_line(name, LONGEST)),
        ("approval", print::word(&approval.status)),
        ("digest", print::one_line(&approval.digest, 200)),
        ("decisions", format!("{} of {}", approval.decisions.len(), approval.min_approvals)),
        ("expires", approval.expires_at.to_string()),
    ];
    facts.extend(approval.policy.as_deref().map(|policy| ("policy", print::one_line(policy, LONGEST))));
    facts.extend(approval.reason.as_deref().map(|reason| ("reason", print::one_line(reason, LONGEST))));
    let arguments = arguments.map_or_else(String::new, |value| format!("{value:#}"));
    format!("{}\n\nArguments:\n{arguments}", print::facts(&facts))
}

/// Returns the pending digest if `given` abbreviates it, and otherwise what was given.
fn full_digest(given: &str, pending: &str) -> String {
    let digits = given.strip_prefix("sha256:").unwrap_or(given);
    let known = pending.strip_prefix("sha256:").unwrap_or(pending);
    if digits.len() >= SHORTEST_DIGEST && known.starts_with(digits) { pending.to_owned() } else { given.to_owned() }
}

fn short(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(12).collect()
}

/// Returns a line for each value that differs, with its JSON Pointer (RFC 6901).
fn difference(pointer: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    match (old, new) {
        (Some(old), Some(new)) if old == new => Vec::new(),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            let names = old.keys().chain(added);
            let within = |name: &String| format!("{pointer}/{}", pointer_token(name));
            names.flat_map(|name| difference(&within(name), old.get(name), new.get(name))).collect()
        }
        (old, new) => {
            let line = |sign, value: &Value| format!("{sign} {pointer}: {}", print::one_line(&value.to_string(), 200));
            old.map(|value| line('-', value)).into_iter().chain(new.map(|value| line('+', value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn difference_names_the_changed_members() {
        let old = json!({"a": 1, "b": {"c": [1], "d": true}, "e": "same"});
        let new = json!({"a": 2, "b": {"c": [1, 2], "x": null}, "e": "same"});
        let lines = difference("", Some(&old), Some(&new));
        assert_eq!(lines, ["- /a: 1", "+ /a: 2", "- /b/c: [1]", "+ /b/c: [1,2]", "- /b/d: true", "+ /b/x: null"]);
    }

    #[test]
    fn digest_is_abbreviated_by_its_first_digits_only() {
        let pending = "sha256:0123456789abcdef";
        assert_eq!(full_digest("01234567", pending), pending);
        assert_eq!(full_digest("sha256:0123456789", pending), pending);
        for other in ["0123456", "1234567890", "sha256:ff"] {
            assert_eq!(full_digest(other, pending), other);
        }
    }
}
