//! Events of a call are complete and in order and end once; the stream of all events has each once, in the same order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toolpost::domain::{Cursor, Shard};

use super::{Evidence, WatchedStream, is_terminal, rank, text};
use crate::support::Event;

pub fn check(evidence: &Evidence, note: &mut impl FnMut(String)) {
    for call in &evidence.world.calls {
        if let Some(events) = evidence.world.histories.get(text(call, "id")) {
            one_call(call, events, note);
        }
    }
    if let Some(heard) = &evidence.heard {
        all_calls(evidence, heard, note);
    }
    for WatchedStream { id, events } in &evidence.watched {
        gapless(id, events, note);
        match evidence.world.histories.get(id) {
            Some(history) => watched(id, events, history, note),
            None => note(format!("{id} was watched, but is not stored or has not ended: {:?}", brief(events))),
        }
    }
}

/// Checks that the events of a stream of one call are numbered without a gap, whatever is stored.
fn gapless(id: &str, events: &[Event], note: &mut impl FnMut(String)) {
    if !events.iter().map(|event| event.data["seq"].as_u64()).eq((1..=events.len() as u64).map(Some)) {
        note(format!("{id}: its stream has a gap or repeats an event: {:?}", brief(events)));
    }
}

/// Checks that a stream of one call is a prefix of its stored history; the full history if the stream has sent the end.
fn watched(id: &str, events: &[Event], history: &[Event], note: &mut impl FnMut(String)) {
    let Some(beginning) = history.get(..events.len()).filter(|beginning| brief(beginning) == brief(events)) else {
        return note(format!("{id}: of its history {:?}, a watcher was sent {:?}", brief(history), brief(events)));
    };
    same_contents(id, events, beginning, note);
}

/// Checks that every member of an event is the same live and read back.
fn same_contents(id: &str, live: &[Event], back: &[Event], note: &mut impl FnMut(String)) {
    let differs = |(live, back): &(&Event, &Event)| live.data != back.data;
    for (live, back) in live.iter().zip(back).filter(differs) {
        let (live, back) = (live.data.as_object(), back.data.as_object());
        let members = live.into_iter().chain(back).flat_map(|data| data.keys()).collect::<BTreeSet<_>>();
        let value = |data: Option<&serde_json::Map<String, Value>>, member: &str| {
            data.and_then(|data| data.get(member).cloned())
        };
        for member in members {
            let (live, back) = (value(live, member), value(back, member));
            if live != back {
                note(format!("{id}: `{member}` of an event was {live:?} live and is {back:?} when it is read back"));
            }
        }
    }
}

fn one_call(call: &Value, events: &[Event], note: &mut impl FnMut(String)) {
    let id = text(call, "id");
    let mut complain = |what: &str| note(format!("{id}: {what}: {:?}", brief(events)));
    let seqs = events.iter().map(|event| event.data["seq"].as_u64());
    if !seqs.eq((1..=events.len() as u64).map(Some)) {
        complain("its events are not numbered from 1 without a gap");
    }
    let count = |kind: &str| events.iter().filter(|event| event.event == kind).count();
    if count("tool_call") != 1 || events.first().is_none_or(|event| event.event != "tool_call") {
        complain("it was not accepted once, and first");
    }
    if count("tool_result") != 1 || events.last().is_none_or(|event| !event.is_result()) {
        complain("it has not one result, and last");
    }
    let statuses: Vec<&Event> = events.iter().filter(|event| event.event == "status").collect();
    if !statuses.is_sorted_by_key(|event| rank(&event.data["status"])) {
        complain("its status went back");
    }
    let ends: Vec<&&Event> = statuses.iter().filter(|event| is_terminal(&event.data)).collect();
    if ends.len() != 1 || ends.iter().any(|end| end.data["status"] != call["status"]) {
        complain("its events do not end it once, and as it is stored");
    }
    let outcome_of = |event: &Event| (event.data["output"].clone(), event.data["is_error"].clone());
    if events.last().map(outcome_of) != Some((call["output"].clone(), call["is_error"].clone())) {
        complain("its result is not the stored one");
    }
}

/// Checks that the events of every call, collected over all connections, are its history.
fn all_calls(evidence: &Evidence, heard: &[Event], note: &mut impl FnMut(String)) {
    let mut ids = BTreeSet::new();
    let mut by_call: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
    for event in heard {
        if !ids.insert(position(event)) {
            note(format!("event {} was sent twice: {}", event.id, event.data));
        }
        by_call.entry(text(&event.data, "id")).or_default().push(event.clone());
    }
    for (id, history) in &evidence.world.histories {
        let heard = by_call.remove(id.as_str()).unwrap_or_default();
        if brief(&heard) != brief(history) {
            note(format!("{id}: of its history {:?}, a listener heard {:?}", brief(history), brief(&heard)));
            continue;
        }
        same_contents(id, &heard, history, note);
    }
    for (id, events) in by_call {
        note(format!("a listener heard of {id}, which is not stored or has not ended: {:?}", brief(&events)));
    }
}

/// Position, kind, number and status of an event.
type BriefEvent<'a> = (i64, &'a str, Option<u64>, &'a str);

fn brief(events: &[Event]) -> Vec<BriefEvent<'_>> {
    fn one(event: &Event) -> BriefEvent<'_> {
        (position(event), &event.event, event.data["seq"].as_u64(), text(&event.data, "status"))
    }
    events.iter().map(one).collect()
}

/// Returns the position of an event within the shard of its call. Its id covers the other shards as well, of which every
/// stream has seen something else.
fn position(event: &Event) -> i64 {
    let seen: Cursor = event.id.parse().expect("a cursor");
    seen.position_in(text(&event.data, "id").parse().map(Shard::of_call).unwrap_or_default())
}
