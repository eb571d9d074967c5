//! Concurrent approvers. They disagree about some calls, and leave some to expire.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{ANSWER_TIMEOUT, Answer, Notes, PAUSE};
use crate::oracle::SentDecision;
use crate::support::Client;
use crate::support::seeded::Seeded;

/// Number of concurrent decisions of one approver.
const AT_ONCE: usize = 8;
/// The lists of waiting calls. The second one has calls that have only begun to wait.
const LISTS: [(&str, &str); 2] =
    [("/approvals?limit=200", "approvals"), ("/tool-calls?phase=approval&limit=200", "tool_calls")];

/// Decides about all calls that wait, until it is dropped. `door_index` selects the first node.
pub async fn decide_all(doors: &[Client], door_index: usize, notes: &Notes, mut chance: Seeded) {
    let mut seen = BTreeSet::new();
    for door_index in door_index.. {
        let (door, (path, member)) = (&doors[door_index % doors.len()], LISTS[door_index % LISTS.len()]);
        let listed = Answer::of(door.request(Method::GET, path), ANSWER_TIMEOUT).await;
        let calls = listed.and_then(|answer| answer.json[member].as_array().cloned()).unwrap_or_default();
        let new = calls.into_iter().filter(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            !is_left(id) && seen.insert(id.to_owned())
        });
        let new: Vec<(Value, &'static str)> =
            new.map(|call| (call, chance.pick(&["approve", "approve", "reject"]))).collect();
        let deciding = stream::iter(new).for_each_concurrent(AT_ONCE, |(call, decision)| async move {
            decide(door, &call, decision, notes).await;
        });
        deciding.await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns `true` for calls about which no approver decides: one in eight, by a random digit of the id.
fn is_left(id: &str) -> bool {
    matches!(id.as_bytes().get(28), Some(b'0' | b'1'))
}

/// Sends a decision once, and records the response.
async fn decide(door: &Client, call: &Value, decision: &'static str, notes: &Notes) {
    let id = call["id"].as_str().unwrap_or_default();
    let index = {
        let mut decided = notes.decided.lock().unwrap();
        let sent = decided.entry(id.to_owned()).or_default();
        sent.push(SentDecision { decision, status: None });
        sent.len() - 1
    };
    let body = json!({"decision": decision, "digest": call["approval"]["digest"]});
    let request = door.request(Method::POST, &format!("/tool-calls/{id}/approval")).json(&body);
    let Some(answer) = Answer::of(request, ANSWER_TIMEOUT).await else { return };
    let is_expected = match answer.status {
        200 | 503 => true,
        409 => answer.json["code"] == "APPROVAL_DECIDED",
        _ => false,
    };
    if !is_expected {
        let text = format!("{id}: \"{decision}\" was answered {} {}", answer.status, answer.json);
        notes.odd.lock().unwrap().push(text);
    }
    notes.decided.lock().unwrap().entry(id.to_owned()).and_modify(|sent| sent[index].status = Some(answer.status));
}
