//! Negative tests of the oracle: it detects every kind of violation.

use serde_json::{Value, json};

use super::{
    AGAIN, BEYOND_BOUNDS, Evidence, GATED, KeyHistory, ONCE, PostedResult, READ, Receipt, Reply, SentDecision, Sight,
    WatchedStream,
};
use crate::support::Event;
use crate::support::counter::Run;

/// Returns correct evidence of three calls with three keys.
fn truth() -> Evidence {
    let mut evidence = Evidence { heard: Some(Vec::new()), ..Evidence::default() };
    for (number, name) in [ONCE, AGAIN, READ].into_iter().enumerate() {
        let (id, key) = (format!("id{number}"), format!("key{number}"));
        let run = Run { number: number + 1, id: id.clone(), name: name.into(), attempt: 1 };
        let call = json!({
            "id": id, "name": name, "arguments": {"key": key, "part": 0}, "batch_id": null, "status": "SUCCESS",
            "output": run.answer(), "is_error": false, "error": null, "attempts": 1, "cached": false,
            "started_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:00.007Z", "duration_ms": 7,
        });
        let event = |seq: u64, event: &str, more: Value| {
            let mut data = json!({"id": id, "seq": seq});
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Event { id: (number as u64 * 5 + seq).to_string(), event: event.into(), data }
        };
        let history = vec![
            event(1, "tool_call", json!({})),
            event(2, "status", json!({"status": "WAIT"})),
            event(3, "status", json!({"status": "DOING"})),
            event(4, "status", json!({"status": "SUCCESS"})),
            event(5, "tool_result", json!({"output": call["output"], "is_error": false})),
        ];
        evidence.heard.as_mut().unwrap().extend(history.clone());
        evidence.world.histories.insert(id.clone(), history);
        let calls = vec![(id.clone(), "SUCCESS".to_owned())];
        let key_history = KeyHistory {
            parts: 1,
            is_cancelled: name == READ,
            replies: vec![Reply { status: 200, calls, ..Reply::default() }],
            sights: vec![Sight { sent_at: 1, received_at: 2, call: call.clone() }],
        };
        evidence.key_histories.insert(key, key_history);
        evidence.world.calls.push(call);
        evidence.runs.push(run);
    }
    let stats = [ONCE, AGAIN, READ].map(|name| {
        json!({
            "tool_name": name, "execution_count": 1, "success_count": 1, "failure_count": 0, "failures_by_code": {},
            "total_duration_ms": 7, "average_duration_ms": 7, "min_duration_ms": 7, "max_duration_ms": 7,
            "p50_duration_ms": 7, "p95_duration_ms": 7, "p99_duration_ms": 7, "retry_count": 0, "cache_hit_count": 0,
            "rejected_count": 0, "rejected_by_code": {}, "last_called_at": "2026-01-01T00:00:00.007Z",
        })
    });
    evidence.world.stats = json!({"tools": stats});
    evidence
}

/// Returns the violations that the oracle finds after `lie`.
fn found(lie: impl FnOnce(&mut Evidence)) -> String {
    let mut evidence = truth();
    lie(&mut evidence);
    evidence.violations().join("\n")
}

#[test]
fn valid_evidence_is_accepted() {
    assert_eq!(truth().violations(), Vec::<String>::new());
}

#[test]
fn responses_must_agree_with_the_store() {
    let found_with =
        |change: fn(&mut Sight)| found(|e| change(&mut e.key_histories.get_mut("key0").unwrap().sights[0]));
    assert!(found_with(|sight| sight.call["id"] = json!("other")).contains("in an answer"));
    assert!(found_with(|sight| sight.call["output"] = json!("other")).contains("was told as"));
    let later = found(|e| {
        let sights = &mut e.key_histories.get_mut("key0").unwrap().sights;
        let mut back = Sight { sent_at: 3, received_at: 4, ..sights[0].clone() };
        back.call["status"] = json!("DOING");
        sights.push(back);
    });
    assert!(later.contains("and then"), "{later}");
    let reply = |change: fn(&mut Reply)| found(|e| change(&mut e.key_histories.get_mut("key0").unwrap().replies[0]));
    assert!(reply(|reply| reply.calls.clear()).contains("not those that are stored"));
    assert!(reply(|reply| reply.calls[0].1 = "DOING".into()).contains("have not ended"));
    assert!(reply(|reply| reply.status = 202).contains("does not say where"));
    assert!(reply(|reply| reply.location = Some("/tool-calls/other".into())).contains("which is not its call"));
    assert!(reply(|reply| reply.batch_id = Some("other".into())).contains("not that of its calls"));
}

#[test]
fn key_has_its_calls_once() {
    let twice = found(|e| {
        let mut again = e.world.calls[0].clone();
        again["id"] = json!("again");
        e.world.calls.push(again);
    });
    assert!(twice.contains("not one each"), "{twice}");
    assert!(found(|e| drop(e.world.calls.remove(0))).contains("not one each"));
    assert!(found(|e| drop(e.key_histories.remove("key0"))).contains("nobody sent"));
    assert!(found(|e| e.world.calls.push(e.world.calls[0].clone())).contains("listed twice"));
    assert!(found(|e| e.world.calls[0]["status"] = json!("DOING")).contains("is still DOING"));
}

#[test]
fn runs_must_be_allowed() {
    let again = |e: &mut Evidence, index: usize| e.runs.push(Run { number: 9, ..e.runs[index].clone() });
    assert!(found(|e| again(e, 0)).contains("ran 2 times"));
    let gated = found(|e| {
        e.world.calls[1]["name"] = json!(GATED);
        e.runs[1].name = GATED.into();
        again(e, 1);
    });
    assert!(gated.contains("id1 ran 2 times"), "{gated}");
    for index in [1, 2] {
        let more = |e: &mut Evidence| {
            again(e, index);
            e.world.calls[index]["attempts"] = json!(2);
            // The caller saw the same value, and the stats count it.
            e.key_histories.values_mut().nth(index).unwrap().sights[0].call["attempts"] = json!(2);
            e.world.stats["tools"][index]["retry_count"] = json!(1);
        };
        assert_eq!(found(more), "", "these may");
        assert!(found(|e| again(e, index)).contains("more often than its attempts say"));
    }
    assert!(found(|e| drop(e.runs.remove(2))).contains("no run gave its output"));
    assert!(found(|e| e.runs[0].id = "other".into()).contains("no call that is stored"));
    assert!(found(|e| e.world.calls[1]["started_at"] = Value::Null).contains("stored as one that never ran"));
    let failed = |index: usize, code: &str, started: bool| {
        let mut evidence = truth();
        let call = &mut evidence.world.calls[index];
        call["status"] = json!("ERROR");
        call["error"] = json!({"code": code});
        if !started {
            call["started_at"] = Value::Null;
            evidence.runs.remove(index);
        }
        let mut found = Vec::new();
        super::runs::check(&evidence, &mut |violation| found.push(violation));
        found.concat()
    };
    assert_eq!(failed(0, "OUTCOME_UNKNOWN", true), "");
    assert_eq!(failed(1, "OVERLOADED", false), "");
    assert!(failed(1, "OVERLOADED", true).contains("says that it was not run"));
    assert_eq!(failed(2, "CANCELLED", true), "");
    assert!(failed(0, "APPROVAL_DENIED", false).contains("although its tool cannot"));
    assert!(failed(1, "CANCELLED", true).contains("although its tool cannot"), "nobody wanted it");
    assert!(failed(0, "OUTCOME_UNKNOWN", false).contains("its outcome is known"));
    assert!(failed(1, "OUTCOME_UNKNOWN", true).contains("may run again"));
    assert!(failed(2, "OUTCOME_UNKNOWN", true).contains("may run again"));
    assert!(failed(0, "TOOL_EXECUTION_ERROR", true).contains("although its tool cannot"));
    for (index, attempts, is_wrong) in [(0, 2, true), (1, 0, true), (1, 1, false)] {
        let mut given_up = truth();
        let call = &mut given_up.world.calls[index];
        call["status"] = json!("ERROR");
        call["error"] = json!({"code": "TOOL_EXECUTION_ERROR", "details": {"poison": true}});
        call["attempts"] = json!(attempts);
        let mut found = Vec::new();
        super::runs::check(&given_up, &mut |violation| found.push(violation));
        assert_eq!(!found.is_empty(), is_wrong, "{found:?}");
    }
    for (length, is_denied, is_wrong) in
        [(BEYOND_BOUNDS, false, true), (BEYOND_BOUNDS, true, false), (1, true, true), (1, false, false)]
    {
        let mut judged = truth();
        let call = &mut judged.world.calls[0];
        call["arguments"]["load"] = json!(vec![1; length]);
        if is_denied {
            (call["status"], call["error"]) = (json!("ERROR"), json!({"code": "POLICY_DENIED"}));
            call["started_at"] = Value::Null;
            judged.runs.remove(0);
        }
        let mut found = Vec::new();
        super::runs::check(&judged, &mut |violation| found.push(violation));
        assert_eq!(!found.is_empty(), is_wrong, "{found:?}");
    }
    for (attempts, is_wrong) in [(2, true), (3, false)] {
        let mut refused = truth();
        let call = &mut refused.world.calls[1];
        call["arguments"]["route"] = json!("flaky");
        (call["status"], call["error"]) = (json!("ERROR"), json!({"code": "TOOL_EXECUTION_ERROR"}));
        call["attempts"] = json!(attempts);
        let mut found = Vec::new();
        super::runs::check(&refused, &mut |violation| found.push(violation));
        assert_eq!(!found.is_empty(), is_wrong, "{found:?}");
    }
}

#[test]
fn histories_and_streams_must_be_complete() {
    let history = |change: fn(&mut Vec<Event>)| {
        found(|e| {
            change(e.world.histories.get_mut("id0").unwrap());
            e.heard = None;
        })
    };
    assert!(history(|events| drop(events.remove(2))).contains("without a gap"));
    assert!(history(|events| events[0].event = "status".into()).contains("not accepted once"));
    assert!(history(|events| events[4].event = "status".into()).contains("not one result"));
    assert!(history(|events| events[1].data["status"] = json!("SUCCESS")).contains("went back"));
    assert!(history(|events| events[3].data["status"] = json!("ERROR")).contains("do not end it once"));
    assert!(history(|events| events[4].data["output"] = json!("other")).contains("not the stored one"));
    let heard = |change: fn(&mut Vec<Event>)| found(|e| change(e.heard.as_mut().unwrap()));
    assert!(heard(|heard| drop(heard.remove(7))).contains("a listener heard"));
    assert!(heard(|heard| heard.push(heard[0].clone())).contains("sent twice"));
    assert!(heard(|heard| heard.swap(2, 3)).contains("a listener heard"));
    let stranger = heard(|heard| {
        let data = json!({"id": "other", "seq": 1});
        heard.push(Event { id: "99".into(), event: "tool_call".into(), data });
    });
    assert!(stranger.contains("which is not stored"), "{stranger}");
}

#[test]
fn live_events_must_equal_stored_events() {
    let started = |events: &mut Vec<Event>| events[2].data["started_at"] = json!("2026-01-01T00:00:00.000Z");
    let heard = found(|e| started(e.heard.as_mut().unwrap()));
    assert!(heard.contains("`started_at` of an event was Some(String("), "{heard}");
    let watched = |change: fn(&mut Vec<Event>)| {
        found(|e| {
            let mut events = e.world.histories["id0"].clone();
            change(&mut events);
            e.watched.push(WatchedStream { id: "id0".into(), events });
        })
    };
    assert_eq!(watched(|_| ()), "");
    assert_eq!(watched(|events| events.truncate(3)), "", "its node was lost");
    assert!(watched(|events| drop(events.remove(2))).contains("a watcher was sent"));
    assert!(watched(|events| drop(events.remove(2))).contains("its stream has a gap"));
    assert!(watched(|events| events.push(events[4].clone())).contains("a watcher was sent"));
    assert!(watched(|events| events[3].data["phase"] = json!("done")).contains("`phase` of an event"));
    let stranger = found(|e| e.watched.push(WatchedStream { id: "other".into(), events: Vec::new() }));
    assert!(stranger.contains("is not stored"), "{stranger}");
}

#[test]
fn posted_results_must_agree_with_the_store() {
    let counted = PostedResult { number: 1, id: "id0".into(), status: 200, is_ignored: false, is_first: true };
    let late = PostedResult { number: 7, is_ignored: true, ..counted.clone() };
    let repeated = PostedResult { is_ignored: true, is_first: false, ..counted.clone() };
    let posted = |posted: &[&PostedResult]| found(|e| e.posted.extend(posted.iter().copied().cloned()));
    assert_eq!(posted(&[&counted, &late]), "");
    assert_eq!(posted(&[&repeated]), "", "the first response was lost");
    assert!(posted(&[&PostedResult { id: "other".into(), ..counted.clone() }]).contains("of no call that is stored"));
    assert!(posted(&[&PostedResult { status: 409, ..counted.clone() }]).contains("unexpected response"));
    assert!(
        posted(&[&PostedResult { number: 7, ..counted.clone() }]).contains("acknowledged, but is not the stored one")
    );
    assert!(posted(&[&PostedResult { is_ignored: true, ..counted }]).contains("ignored, but is the stored one"));
}

#[test]
fn receipts_must_agree_with_the_store() {
    let counted = Receipt { id: "id0".into(), result: "run 1".into(), is_ignored: false };
    let late = Receipt { result: "run 7".into(), is_ignored: true, ..counted.clone() };
    let receipts = |receipts: &[&Receipt]| found(|e| e.receipts.extend(receipts.iter().copied().cloned()));
    assert_eq!(receipts(&[&counted, &late, &counted]), "");
    let both = receipts(&[&counted, &Receipt { is_ignored: false, ..late }]);
    assert!(both.contains("says that a result counts, but it does not"), "{both}");
    let lost = receipts(&[&Receipt { is_ignored: true, ..counted.clone() }]);
    assert!(lost.contains("says that a result was ignored, but it counts"), "{lost}");
    assert!(receipts(&[&Receipt { id: "other".into(), ..counted }]).contains("of no call that is stored"));
}

#[test]
fn stats_are_recomputed() {
    for (field, _) in truth().world.stats["tools"][0].as_object().unwrap().iter().skip(1) {
        let lie = found(|e| e.world.stats["tools"][0][field] = json!(1_000));
        assert!(lie.contains(&format!("{field} of {ONCE} is 1000")), "{field}: {lie}");
    }
    assert!(found(|e| drop(e.world.stats["tools"].as_array_mut().unwrap().pop())).contains("no stats"));
}

/// Returns what the rules about approvals find for a call with this approval, end and decisions.
fn gated(approval: (&str, &[&str]), code: Option<&str>, runs: usize, sent: &[(&'static str, Option<u16>)]) -> String {
    let (status, decisions) = approval;
    let decisions: Vec<Value> = decisions.iter().map(|decision| json!({"decision": decision})).collect();
    let call = json!({
        "id": "id", "name": GATED, "status": if code.is_none() { "SUCCESS" } else { "ERROR" }, "error": {"code": code},
        "approval": {"status": status, "decisions": decisions},
        "started_at": if runs > 0 { json!("2026-01-01T00:00:00.000Z") } else { Value::Null },
    });
    let run = Run { number: 1, id: "id".into(), name: GATED.into(), attempt: 1 };
    let sent = sent.iter().map(|&(decision, status)| SentDecision { decision, status }).collect();
    let mut evidence = Evidence { runs: vec![run; runs], ..Evidence::default() };
    evidence.world.calls.push(call);
    evidence.decided.insert("id".into(), sent);
    let mut found = Vec::new();
    super::approvals::check(&evidence, &mut |violation| found.push(violation));
    found.join("\n")
}

#[test]
fn decisions_in_force_are_accepted() {
    let (approved, rejected) = (("approved", &["approve"][..]), ("rejected", &["reject"][..]));
    let (yes, no) = (("approve", Some(200)), ("reject", Some(200)));
    assert_eq!(gated(approved, None, 1, &[yes, ("reject", Some(409))]), "");
    assert_eq!(gated(approved, None, 1, &[("approve", None), ("approve", Some(409))]), "", "its response was lost");
    assert_eq!(gated(approved, Some("CANCELLED"), 0, &[yes]), "", "it was cancelled before it ran");
    assert_eq!(gated(rejected, Some("APPROVAL_DENIED"), 0, &[no, ("approve", Some(409))]), "");
    assert_eq!(gated(("expired", &[]), Some("APPROVAL_EXPIRED"), 0, &[("approve", Some(409))]), "");
    assert_eq!(gated(("pending", &[]), Some("CANCELLED"), 0, &[]), "");
    assert!(gated(("approved", &[]), None, 1, &[yes]).contains("does not show it"));
    assert!(gated(("rejected", &["approve"]), Some("APPROVAL_DENIED"), 0, &[no]).contains("does not show it"));
}

#[test]
fn decisions_must_agree_with_runs_and_the_store() {
    let (approved, rejected) = (("approved", &["approve"][..]), ("rejected", &["reject"][..]));
    let (yes, no) = (("approve", Some(200)), ("reject", Some(200)));
    let ran = gated(rejected, Some("APPROVAL_DENIED"), 1, &[no]);
    assert!(ran.contains("ran 1 times, but its approval is rejected"), "{ran}");
    assert!(gated(("pending", &[]), Some("CANCELLED"), 1, &[]).contains("but its approval is pending"));
    assert!(gated(("pending", &[]), None, 0, &[]).contains("went well, but its approval is pending"));
    assert!(gated(rejected, Some("CANCELLED"), 0, &[no]).contains("has ended with the code \"CANCELLED\""));
    assert!(gated(approved, Some("APPROVAL_DENIED"), 0, &[yes]).contains("but its approval is approved"));
    assert!(gated(approved, Some("APPROVAL_EXPIRED"), 0, &[yes]).contains("but its approval is approved"));
    assert!(gated(approved, None, 1, &[yes, no]).contains("2 decisions were acknowledged"));
    assert!(gated(approved, None, 1, &[("approve", None), no]).contains("\"reject\" was acknowledged, but is not"));
    let lost = gated(("expired", &[]), Some("APPROVAL_EXPIRED"), 0, &[yes]);
    assert!(lost.contains("\"approve\" was acknowledged, but is not in force"), "{lost}");
    assert!(gated(("approved", &[]), None, 1, &[yes]).contains("approved by the decisions []"));
    assert!(gated(approved, None, 1, &[("reject", Some(409))]).contains("which no approver sent"));
}
