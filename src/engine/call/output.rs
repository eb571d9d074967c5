//! The check of a result against the output schema of its tool.

use crate::domain::tool::OutputCheck;
use crate::domain::{Failure, Outcome};
use crate::registry::Entry;

/// Checks a successful outcome against the output schema of the tool. Returns the outcome, or the failure that replaces
/// it.
pub(super) fn check_output(entry: &Entry, mut outcome: Box<Outcome>) -> Box<Outcome> {
    let Some(schema) = entry.output.as_ref().filter(|_| !outcome.is_error()) else { return outcome };
    let text = serde_json::Value::String(outcome.output.clone());
    let violations = schema.violations(outcome.structured.as_deref().unwrap_or(&text));
    if violations.is_empty() {
        return outcome;
    }
    let violations = serde_json::json!(violations);
    match entry.definition.output_check {
        OutputCheck::Warn => {
            outcome.metadata.insert("output_violations".into(), violations);
            outcome
        }
        OutputCheck::Strict => {
            let details = std::mem::take(&mut outcome.details);
            Box::new(Outcome { details, ..Failure::result_invalid(&entry.name, violations).into() })
        }
    }
}
