//! Server-Sent Events as bytes (WHATWG HTML, section 9.2), rendered once per event and shared by all subscribers.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use super::render;
use toolpost_core::domain::event::Event;
use toolpost_core::domain::{Call, Cursor, Tenant};

/// A comment that keeps an idle stream open.
pub const HEARTBEAT: Bytes = Bytes::from_static(b": still here\n\n");
/// The first bytes of a stream, which make proxies forward the head immediately.
pub const OPENING: Bytes = Bytes::from_static(b": toolpost\n\n");
/// The last bytes that a disconnected slow subscriber receives.
pub const CUT_OFF: Bytes = Bytes::from_static(b": cut off, too slow; resume with Last-Event-ID\n\n");

/// A committed event with its frame, which is rendered on first use.
#[derive(Debug)]
pub struct FramedEvent {
    /// The event.
    pub event: Event,
    /// What a subscriber has seen of the other shards when it receives the event.
    seen: Arc<Cursor>,
    frame: OnceLock<Bytes>,
}

impl FramedEvent {
    /// Creates the event for subscribers that have seen this much of the other shards.
    #[must_use]
    pub fn new(event: Event, seen: Arc<Cursor>) -> Self {
        Self { event, seen, frame: OnceLock::new() }
    }

    /// Returns the event as sent to clients.
    pub fn bytes(&self) -> Bytes {
        self.frame.get_or_init(|| event_frame(&self.event, &self.seen)).clone()
    }

    /// Returns the event as sent to a client that has seen something else of the other shards.
    pub fn bytes_after(&self, seen: &Cursor) -> Bytes {
        if *seen == *self.seen {
            return self.bytes();
        }
        // The call may be an outline by now, so the frame is kept except for its id.
        let frame = self.bytes();
        let rest = frame.iter().position(|byte| *byte == b'\n').map_or_else(Bytes::new, |end| frame.slice(end..));
        let id = format!("id: {}", seen.with(self.event.pos));
        join([id.into(), rest])
    }

    /// Returns what a subscriber has seen after this event.
    #[must_use]
    pub fn seen(&self) -> Cursor {
        let mut seen = Cursor::clone(&self.seen);
        seen.advance(self.event.pos);
        seen
    }
}

/// Renders an event for clients that have seen this much of the other shards.
pub(super) fn event_frame(event: &Event, seen: &Cursor) -> Bytes {
    frame(seen.with(event.pos), event.kind().as_str(), &render::data(event))
}

/// Returns the frames of events in the order in which a client receives them. `seen` is what it has seen before; it is
/// advanced by each event.
pub fn of_events(events: impl IntoIterator<Item = Event>, seen: &mut Cursor) -> impl Iterator<Item = (Event, Bytes)> {
    events.into_iter().map(|event| {
        let bytes = event_frame(&event, seen);
        seen.advance(event.pos);
        (event, bytes)
    })
}

/// Renders one frame; `data` must not contain line breaks.
#[must_use]
pub fn frame(id: impl Display, event: &str, data: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"))
}

/// Returns the last `id:` in these frames.
#[must_use]
pub fn last_id(frames: &[u8]) -> Option<Cursor> {
    // A line of data never begins with `id: `, because all data is JSON after `data: `.
    let id = frames.rsplit(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"id: "))?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// Joins frames.
pub fn join(frames: impl IntoIterator<Item = Bytes>) -> Bytes {
    let mut joined = BytesMut::new();
    for frame in frames {
        joined.extend_from_slice(&frame);
    }
    joined.freeze()
}

/// Bytes of arguments and output above which a call is large. Calls of other nodes are read from the database, where no
/// request counts their memory.
const LARGE_CALL_BYTES: usize = 64 * 1024;

fn is_large(call: &Call) -> bool {
    let output = call.outcome.as_deref().map_or(0, |outcome| outcome.output.len());
    call.counted.0.is_some() || call.arguments_text.get().len() + output > LARGE_CALL_BYTES
}

/// The events of a commit and their joined frames.
#[derive(Debug)]
pub struct CommitFrames {
    /// Position of the first event.
    pub first_pos: i64,
    /// Position of the last event.
    pub last_pos: i64,
    /// What had been published before.
    pub seen: Arc<Cursor>,
    /// The tenant of all events; `None` if they belong to several tenants.
    pub tenant: Option<Tenant>,
    /// The events.
    pub events: Vec<Arc<FramedEvent>>,
    joined: OnceLock<Bytes>,
    /// The counter for the size of the frames, and the counted size in bytes.
    counted: Option<(Arc<AtomicUsize>, usize)>,
}

impl CommitFrames {
    /// Creates the frames of consecutive events of one shard, for subscribers that have seen what was published before.
    #[must_use]
    pub fn new(first_pos: i64, last_pos: i64, events: Vec<Event>, seen: Arc<Cursor>) -> Self {
        let framed = |event| Arc::new(FramedEvent::new(event, seen.clone()));
        let events: Vec<Arc<FramedEvent>> = events.into_iter().map(framed).collect();
        let mut tenants = events.iter().map(|event| &event.event.call.tenant);
        let first = tenants.next().cloned();
        let tenant = first.filter(|first| tenants.all(|tenant| tenant == first));
        Self { first_pos, last_pos, seen, tenant, events, joined: OnceLock::new(), counted: None }
    }

    /// Returns `true` if the commit contains large calls: of a large request on this node, or with much text on any node.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        self.events.iter().any(|event| is_large(&event.event.call))
    }

    /// Returns a copy that holds only the frames and the identity of each call.
    #[must_use]
    pub fn light(&self) -> Self {
        let light = |framed: &Arc<FramedEvent>| {
            let Event { pos, seq, call, stage } = &framed.event;
            let event = Event { pos: *pos, seq: *seq, call: Arc::new(call.outline()), stage: stage.clone() };
            Arc::new(FramedEvent { event, seen: framed.seen.clone(), frame: framed.bytes().into() })
        };
        let mut copy = self.positions();
        (copy.tenant, copy.events) = (self.tenant.clone(), self.events.iter().map(light).collect());
        copy
    }

    /// Adds the size of the frames to `count` until this value is dropped.
    #[must_use]
    pub fn counted(mut self, count: Arc<AtomicUsize>) -> Self {
        // Each frame exists twice: alone and in the joined frames.
        let bytes = self.events.iter().map(|event| event.bytes().len() * 2).sum();
        count.fetch_add(bytes, Ordering::Relaxed);
        self.counted = Some((count, bytes));
        self
    }

    /// Returns the positions of this commit without its events, which subscribers read from the store.
    #[must_use]
    pub fn positions(&self) -> Self {
        let Self { first_pos, last_pos, ref seen, .. } = *self;
        let seen = seen.clone();
        Self { first_pos, last_pos, seen, tenant: None, events: Vec::new(), joined: OnceLock::new(), counted: None }
    }

    /// Returns all frames in order.
    pub fn bytes(&self) -> Bytes {
        self.joined.get_or_init(|| join(self.events.iter().map(|event| event.bytes()))).clone()
    }
}

impl Drop for CommitFrames {
    fn drop(&mut self) {
        if let Some((count, bytes)) = &self.counted {
            count.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use toolpost_core::domain::call::{CallRecord, StatusUpdate};
    use toolpost_core::domain::event::{Emission, EventKind, Reported, Stage};
    use toolpost_core::domain::{ContentBlock, Failure, Outcome, Time};

    #[test]
    fn last_id_is_the_id_of_the_last_frame() {
        let frames = [frame(7, "a", r#""id: 9 \nid: 8""#), frame(12, "b", r#"{"x":"id: 5"}"#), HEARTBEAT].concat();
        assert_eq!(last_id(&frames), Some(Cursor::at([12])));
        assert_eq!((last_id(&HEARTBEAT), last_id(b"")), (None, None));
    }

    #[test]
    fn commit_with_a_large_call_of_another_node_is_heavy() {
        let commit = |text: &str| {
            let mut call = call("t");
            call.settle(Outcome::text(text), Time(2)).unwrap();
            let event = Event { pos: 1, seq: 1, call: Arc::new(call), stage: Stage::Result };
            CommitFrames::new(1, 1, vec![event], Arc::default())
        };
        assert!(!commit("short").is_heavy());
        assert!(commit(&"x".repeat(LARGE_CALL_BYTES + 1)).is_heavy());
    }

    /// Generates texts with every kind of line break.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[\\r\\n\u{b}\u{c}\u{85}\u{2028}\u{2029}\\x00:a ]{0,12}"]
    }

    /// Returns a call with this text in every field that a caller or a tool can set.
    fn call(text: &str) -> Call {
        let arguments = Arc::new(serde_json::json!({text: [text]}));
        let mut call = Call::from(CallRecord {
            title: text.into(),
            session: Some(text.into()),
            ..CallRecord::accepted(uuid::Uuid::nil(), text.into(), Some(text), arguments, Time(0), text.into())
        });
        call.start(Time(1)).unwrap();
        let members = serde_json::Map::from_iter([(text.to_owned(), text.into())]);
        let update = StatusUpdate {
            tip: Some(text.into()),
            params: members.clone(),
            metadata: members,
            ..StatusUpdate::default()
        };
        call.update(update).unwrap();
        call
    }

    /// Returns every event that the call can have, completed and failed.
    fn events(text: &str) -> Vec<Event> {
        let running = call(text);
        let emission = Emission { content: vec![ContentBlock::Text(text.into())], ..Emission::default() };
        let reports = [
            (EventKind::Status, render::status_update(&running, Time(1))),
            (EventKind::Progress, render::emission(&running, &emission, Time(1))),
        ];
        let mut stages = vec![Stage::Accepted, Stage::Waiting, Stage::Started, Stage::Settled, Stage::Result];
        stages.extend(reports.map(|(kind, data)| Stage::Reported(Arc::new(Reported { seq: 4, kind, data }))));
        let outcomes = [Outcome::text(text), Failure::execution(text, text).into()];
        let calls = outcomes.map(|outcome| {
            let mut call = running.clone();
            call.settle(outcome, Time(2)).unwrap();
            Arc::new(call)
        });
        let with = |call: &Arc<Call>| {
            let event = |stage: &Stage| Event { pos: 7, seq: 4, call: call.clone(), stage: stage.clone() };
            stages.iter().map(event).collect::<Vec<_>>()
        };
        calls.iter().flat_map(with).collect()
    }

    proptest! {
        #[test]
        fn frame_has_one_line_of_json(text in text()) {
            for event in events(&text) {
                let framed = FramedEvent::new(event, Arc::default());
                let bytes = framed.bytes();
                let frame = std::str::from_utf8(&bytes).unwrap();
                let lines: Vec<&str> = frame.split(['\n', '\r']).collect();
                prop_assert_eq!((lines.len(), lines[0], &lines[3..]), (5, "id: 7", &["", ""][..]), "{}", frame);
                let kind = lines[1].strip_prefix("event: ").unwrap();
                prop_assert_eq!(kind, framed.event.kind().as_str());
                let data: serde_json::Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
                prop_assert_eq!(data["name"].as_str(), Some(text.as_str()));
            }
        }
    }
}
