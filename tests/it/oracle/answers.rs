//! Every accepted call ends, and an idempotency key has one set of calls and one result, for every client and every
//! retry.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Evidence, KeyHistory, Reply, Sight, is_terminal, rank, text};

pub fn check(evidence: &Evidence, note: &mut impl FnMut(String)) {
    let mut stored: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for call in &evidence.world.calls {
        let id = text(call, "id");
        if !ids.insert(id) {
            note(format!("{id} is listed twice"));
        }
        if !is_terminal(call) {
            note(format!("{id} is still {}/{}: {call}", text(call, "status"), text(call, "phase")));
        }
        let key = text(&call["arguments"], "key");
        if !evidence.key_histories.contains_key(key) {
            note(format!("{id} is of the key \"{key}\", which nobody sent"));
        }
        stored.entry(key).or_default().push(call);
    }
    for (key, history) in &evidence.key_histories {
        let mut calls = stored.remove(key.as_str()).unwrap_or_default();
        calls.sort_by_key(|call| call["arguments"]["part"].as_u64());
        let parts: Vec<Option<u64>> = calls.iter().map(|call| call["arguments"]["part"].as_u64()).collect();
        if !parts.iter().copied().eq((0..history.parts as u64).map(Some)) {
            let found: Vec<&str> = calls.iter().map(|call| text(call, "id")).collect();
            note(format!("{key} has the calls {parts:?} and not one each of {}: {found:?}", history.parts));
            continue;
        }
        one_answer(key, history, &calls, note);
    }
}

/// Checks that responses for a key are about the stored calls and agree with their outcomes.
fn one_answer(key: &str, history: &KeyHistory, stored: &[&Value], note: &mut impl FnMut(String)) {
    for reply in &history.replies {
        the_reply(key, reply, stored, note);
    }
    for (part, stored) in stored.iter().enumerate() {
        let of_part = |sight: &&Sight| sight.call["arguments"]["part"].as_u64() == Some(part as u64);
        let sights: Vec<&Sight> = history.sights.iter().filter(of_part).collect();
        for sight in &sights {
            if sight.call["id"] != stored["id"] {
                note(format!("{key}/{part} is {} in an answer and {} in the store", sight.call["id"], stored["id"]));
            } else if is_terminal(&sight.call) && sight.call != **stored {
                note(format!("{key}/{part} was told as {} and is stored as {stored}", sight.call));
            }
        }
        forwards(key, part, &sights, note);
    }
}

fn the_reply(key: &str, reply: &Reply, stored: &[&Value], note: &mut impl FnMut(String)) {
    let Reply { status, location, batch_id, calls } = reply;
    let path = location.as_deref().unwrap_or_default();
    // A 503 of a batch that was not accepted may name a batch id; the stored calls have one batch id in any case.
    if let (None, Some(id)) = (batch_id, path.strip_prefix("/tool-calls/"))
        && stored.iter().all(|call| call["id"] != id)
    {
        note(format!("{key}: a {status} sent its caller to {path}, which is not its call"));
    }
    if let Some(batch_id) = batch_id
        && stored.iter().any(|call| call["batch_id"] != *batch_id)
    {
        note(format!("{key}: a {status} is of the batch {batch_id}, which is not that of its calls"));
    }
    let is_stored = |(reported, stored): (&(String, String), &&Value)| stored["id"] == reported.0;
    if matches!(status, 200 | 202) && !(calls.len() == stored.len() && calls.iter().zip(stored).all(is_stored)) {
        note(format!("{key}: a {status} has the calls {calls:?}, in this order, and not those that are stored"));
    }
    if *status == 200 && calls.iter().any(|(_, status)| !matches!(&**status, "SUCCESS" | "ERROR")) {
        note(format!("{key}: a 200 has calls that have not ended: {calls:?}"));
    }
    if *status == 202 && location.is_none() {
        note(format!("{key}: a 202 does not say where"));
    }
}

/// Checks that a later request never returns an earlier status.
fn forwards(key: &str, part: usize, sights: &[&Sight], note: &mut impl FnMut(String)) {
    for one in sights {
        let later = sights.iter().filter(|other| other.sent_at > one.received_at);
        for other in later {
            if rank(&other.call["status"]) < rank(&one.call["status"]) {
                note(format!("{key}/{part} was {} and then {}", one.call["status"], other.call["status"]));
            }
        }
    }
}
