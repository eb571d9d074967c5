//! Calls that need an approval run only if they are approved, and every acknowledged decision is in force.

use serde_json::Value;

use super::{Evidence, GATED, SentDecision, text};

pub fn check(evidence: &Evidence, note: &mut impl FnMut(String)) {
    for call in evidence.world.calls.iter().filter(|call| call["name"] == GATED) {
        let id = text(call, "id");
        let sent = evidence.decided.get(id).map(Vec::as_slice).unwrap_or_default();
        let runs = evidence.runs.iter().filter(|run| run.id == id).count();
        let (status, code) = (text(&call["approval"], "status"), text(&call["error"], "code"));
        if status != "approved" && (runs > 0 || !call["started_at"].is_null()) {
            note(format!("{id} ran {runs} times, but its approval is {status}: {call}"));
        }
        if call["status"] == "SUCCESS" && status != "approved" {
            note(format!("{id} went well, but its approval is {status}: {call}"));
        }
        let is_denied = (status == "rejected", status == "expired");
        if is_denied != (code == "APPROVAL_DENIED", code == "APPROVAL_EXPIRED") {
            note(format!("{id} has ended with the code \"{code}\", but its approval is {status}: {call}"));
        }
        acknowledged(call, sent, note);
        recorded(call, sent, note);
    }
}

/// Checks that at most one decision was acknowledged, and that it is in force.
fn acknowledged(call: &Value, sent: &[SentDecision], note: &mut impl FnMut(String)) {
    let id = text(call, "id");
    let won: Vec<&str> = sent.iter().filter(|sent| sent.status == Some(200)).map(|sent| sent.decision).collect();
    if won.len() > 1 {
        note(format!("{id}: {} decisions were acknowledged: {won:?}", won.len()));
    }
    let Some(decision) = won.first() else { return };
    let expected = if *decision == "approve" { "approved" } else { "rejected" };
    if call["approval"]["status"] != expected {
        note(format!("{id}: \"{decision}\" was acknowledged, but is not in force: {call}"));
    }
    let recorded = call["approval"]["decisions"].as_array().into_iter().flatten();
    if !recorded.into_iter().any(|one| text(one, "decision") == *decision) {
        note(format!("{id}: \"{decision}\" was acknowledged, but the call does not show it: {call}"));
    }
}

/// Checks that the recorded decisions were sent, and that there is one for a decided approval.
fn recorded(call: &Value, sent: &[SentDecision], note: &mut impl FnMut(String)) {
    let (id, status) = (text(call, "id"), text(&call["approval"], "status"));
    let decisions: Vec<&str> =
        call["approval"]["decisions"].as_array().into_iter().flatten().map(|one| text(one, "decision")).collect();
    let expected: &[&str] = match status {
        "approved" => &["approve"],
        "rejected" => &["reject"],
        _ => &[],
    };
    if decisions != expected {
        note(format!("{id}: its approval is {status} by the decisions {decisions:?}"));
    }
    for decision in decisions {
        if sent.iter().all(|sent| sent.decision != decision) {
            note(format!("{id} has the decision \"{decision}\", which no approver sent: {sent:?}"));
        }
    }
}
