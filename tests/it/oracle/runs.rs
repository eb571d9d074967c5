//! Tools are started twice only if that is safe, and never without a record; every successful output is that of a run.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AGAIN, ATTEMPTS, BEYOND_BOUNDS, Evidence, GATED, ONCE, READ, text};
use crate::support::counter::Run;

/// Codes of calls that never ran.
const NEVER_RAN: [&str; 2] = ["OVERLOADED", "SHUTTING_DOWN"];

pub fn check(evidence: &Evidence, note: &mut impl FnMut(String)) {
    let names: BTreeMap<&str, &Value> =
        evidence.world.calls.iter().map(|call| (text(call, "id"), &call["name"])).collect();
    let mut runs: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &evidence.runs {
        match names.get(run.id.as_str()) {
            Some(name) if **name == run.name => runs.entry(&run.id).or_default().push(run),
            _ => note(format!("{run:?} is of no call that is stored")),
        }
    }
    for call in &evidence.world.calls {
        let runs = runs.remove(text(call, "id")).unwrap_or_default();
        let (id, name) = (text(call, "id"), text(call, "name"));
        if [ONCE, GATED].contains(&name) && runs.len() > 1 {
            note(format!("{id} ran {} times: {runs:?}", runs.len()));
        }
        // All calls have an idempotency key, so they are committed before they start, and so are their starts.
        if call["started_at"].is_null() && !runs.is_empty() {
            note(format!("{id} is stored as one that never ran, but it did: {runs:?}, {call}"));
        }
        if runs.len() as u64 > call["attempts"].as_u64().unwrap_or_default() {
            note(format!("{id} ({name}) ran more often than its attempts say: {runs:?}, {call}"));
        }
        match text(call, "status") {
            "SUCCESS" if !runs.iter().any(|run| call["output"] == run.answer()) => {
                note(format!("{id} ({name}) went well, but no run gave its output: {runs:?}, {call}"));
            }
            "SUCCESS" if exceeds_bounds(call) => {
                note(format!("{id} ({name}) ran, but its policies exceed their bounds: {runs:?}"));
            }
            "ERROR" => {
                let history = evidence.key_histories.get(text(&call["arguments"], "key"));
                failure(call, history.is_some_and(|history| history.is_cancelled), note);
            }
            _ => {}
        }
    }
}

/// Returns `true` if the policies for the call cannot be evaluated within their bounds.
fn exceeds_bounds(call: &Value) -> bool {
    call["arguments"]["load"].as_array().is_some_and(|load| load.len() >= BEYOND_BOUNDS)
}

/// Returns `true` if the call was given up because nodes were lost while they worked on it.
fn is_given_up(call: &Value) -> bool {
    call["error"]["details"]["poison"] == true
}

/// Checks the reason of a failure. The tools never fail permanently, so the service or a cancellation is the reason.
fn failure(call: &Value, is_cancelled: bool, note: &mut impl FnMut(String)) {
    let attempts = call["attempts"].as_u64().unwrap_or_default();
    let (id, name, code) = (text(call, "id"), text(call, "name"), text(&call["error"], "code"));
    match code {
        "OUTCOME_UNKNOWN" if [AGAIN, READ].contains(&name) => {
            note(format!("{id} ({name}) was lost, but it may run again: {call}"));
        }
        "OUTCOME_UNKNOWN" if call["started_at"].is_null() => {
            note(format!("{id} never ran, so its outcome is known: {call}"));
        }
        "OUTCOME_UNKNOWN" => {}
        "CANCELLED" if is_cancelled => {}
        // Whether its approval says so is checked with the approvals.
        "APPROVAL_DENIED" | "APPROVAL_EXPIRED" if name == GATED => {}
        "POLICY_DENIED" if exceeds_bounds(call) && call["started_at"].is_null() => {}
        // Each adopter was lost while it evaluated the policies, or has recorded the start of an attempt before its loss.
        "TOOL_EXECUTION_ERROR" if is_given_up(call) && [AGAIN, READ].contains(&name) && attempts >= 1 => {}
        // Its nodes were lost while they evaluated its policies.
        "TOOL_EXECUTION_ERROR" if is_given_up(call) && call["started_at"].is_null() => {}
        // Lost runs count as attempts, so the server may have rejected the last one.
        "TOOL_EXECUTION_ERROR" if name == AGAIN && call["arguments"]["route"] == "flaky" && attempts >= ATTEMPTS => {}
        "OVERLOADED" if !call["started_at"].is_null() => {
            note(format!("{id} ({name}) says that it was not run, but it has started: {call}"));
        }
        code if NEVER_RAN.contains(&code) => {}
        _ => note(format!("{id} ({name}) failed although its tool cannot: {call}")),
    }
}
