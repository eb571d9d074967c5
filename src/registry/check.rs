//! What a definition must be beyond its shape, so that a bad one is refused where it is made.

use crate::domain::limits::LimitsSpec;
use crate::domain::{ToolDefinition, tool};

/// Longest title, in characters.
const LONGEST_TITLE: usize = 200;

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where (RFC 6901).
    pub pointer: String,
    /// What, and the way out.
    pub message: String,
}

impl Fault {
    /// A fault at a place.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// All faults in one line.
#[must_use]
pub fn summary(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect();
    lines.join("; ")
}

/// Everything about a definition that needs no schema compiler.
pub(super) fn definition(definition: &ToolDefinition) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !tool::is_valid_name(&definition.name) {
        let message = "must be 1 to 128 of A-Z, a-z, 0-9, `_`, `.` and `-`";
        faults.push(Fault::at("/name", message));
    }
    if definition.title.as_ref().is_some_and(|title| title.chars().count() > LONGEST_TITLE) {
        faults.push(Fault::at("/title", format!("must have at most {LONGEST_TITLE} characters")));
    }
    for (index, group) in definition.groups.iter().enumerate() {
        faults.push(Fault::at(format!("/groups/{index}"), format!("there is no group \"{group}\"")));
    }
    if definition.asynchronous {
        faults.push(Fault::at("/async", "asynchronous tools are not supported by this version; leave it out"));
    }
    if definition.retry.max_attempts != 1 {
        faults.push(Fault::at("/retry/max_attempts", "must be 1: retries are not supported by this version"));
    }
    faults.extend(
        limits(&definition.limits)
            .into_iter()
            .map(|fault| Fault { pointer: format!("/limits{}", fault.pointer), ..fault }),
    );
    faults
}

/// What is wrong with declared limits; pointers are within them.
#[must_use]
pub fn limits(limits: &LimitsSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    if limits.timeout_ms == Some(0) {
        faults.push(Fault::at("/timeout_ms", "must be at least 1"));
    }
    let unsupported = [
        ("/idle_timeout_ms", limits.idle_timeout_ms.is_some()),
        ("/queue_timeout_ms", limits.queue_timeout_ms.is_some()),
        ("/max_concurrency", limits.max_concurrency.is_some()),
        ("/max_output_bytes", limits.max_output_bytes.is_some()),
        ("/max_output_lines", limits.max_output_lines.is_some()),
        ("/truncate", limits.truncate.is_some()),
    ];
    for (pointer, _) in unsupported.into_iter().filter(|(_, given)| *given) {
        faults.push(Fault::at(pointer, "is not supported by this version; leave it out"));
    }
    faults
}
