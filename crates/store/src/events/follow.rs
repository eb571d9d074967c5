//! The position of a subscriber within the events of a call. The bus carries only commits of this node, so an event may
//! arrive before earlier events of another node, which are then read from the store first.

use std::collections::HashMap;

use bytes::Bytes;
use uuid::Uuid;

use super::frame::{self, FramedEvent};
use crate::store::{Store, StoreError};
use toolpost_core::domain::Cursor;
use toolpost_core::domain::event::{Event, Stage};

/// The last event of a call that a subscriber has received or skipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct Follower {
    pos: i64,
    seq: u32,
}

/// The positions of a subscriber within several calls.
#[derive(Debug, Default)]
pub struct Followers(HashMap<Uuid, Follower>);

/// The relation of an event to the events that the subscriber has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The subscriber has received the event already.
    SeenWorker,
    /// The event is the next one.
    Next,
    /// Earlier events are missing.
    Gap,
}

/// The stored events of a call that were missing.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// The new events.
    pub events: Vec<Event>,
    /// Whether the call has ended.
    pub has_ended: bool,
}

impl Follower {
    /// Creates a follower that has received all events up to this position.
    #[must_use]
    pub fn after(pos: i64) -> Self {
        Self { pos, seq: 0 }
    }

    /// Advances to this event if it is the next one.
    pub fn step(&mut self, event: &Event) -> Step {
        if event.pos <= self.pos {
            return Step::SeenWorker;
        }
        if event.seq > self.seq + 1 {
            return Step::Gap;
        }
        (self.pos, self.seq) = (event.pos, event.seq);
        Step::Next
    }

    /// Advances past these events, which are all events of the call, and returns the new ones.
    pub fn read(&mut self, events: Vec<Event>) -> ReadBack {
        let Some(last) = events.last() else { return ReadBack::default() };
        let (after, has_ended) = (self.pos, last.stage == Stage::Result);
        (self.pos, self.seq) = (last.pos.max(after), last.seq);
        let events = events.into_iter().filter(|event| event.pos > after).collect();
        ReadBack { events, has_ended }
    }

    /// Reads the missing events from the store; returns `None` if the call no longer exists.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read. The position is then unchanged.
    pub async fn read_back(&mut self, store: &Store, id: Uuid) -> Result<Option<ReadBack>, StoreError> {
        Ok(store.events_of(id).await?.map(|events| self.read(events)))
    }
}

impl Followers {
    /// Returns the frames to send for an event: first those of missing events that another node has written, then its
    /// own, or nothing if it was sent already. Passes each event to `sent`. Returns `None` if the missing events cannot
    /// be read: the event must not be sent, and the client must continue with the stream of the call.
    pub async fn frames_of(
        &mut self,
        store: &Store,
        event: &FramedEvent,
        mut sent: impl FnMut(&Event),
    ) -> Option<Bytes> {
        let id = event.event.call.id;
        let follower = self.0.entry(id).or_default();
        match follower.step(&event.event) {
            Step::SeenWorker => Some(Bytes::new()),
            Step::Next => {
                sent(&event.event);
                Some(event.bytes())
            }
            Step::Gap => {
                let missing = follower.read_back(store, id).await.ok()??;
                missing.events.iter().for_each(sent);
                Some(frame::join(missing.frames(&event.seen())))
            }
        }
    }
}

impl ReadBack {
    /// Returns the frames of all events in order, for a client that has seen this much of the other shards.
    pub fn frames(self, seen: &Cursor) -> impl Iterator<Item = Bytes> {
        self.events.into_iter().map(|event| frame::event_frame(&event, seen))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use toolpost_core::domain::call::CallRecord;
    use toolpost_core::domain::{Call, Time};

    fn event(pos: i64, seq: u32, stage: Stage) -> Event {
        let call =
            Call::from(CallRecord::accepted(Uuid::nil(), "echo".into(), None, Arc::default(), Time(0), "n".into()));
        Event { pos, seq, call: Arc::new(call), stage }
    }

    fn history(numbers: std::ops::RangeInclusive<u32>) -> Vec<Event> {
        numbers.map(|seq| event(i64::from(seq) * 10, seq, Stage::Waiting)).collect()
    }

    #[test]
    fn event_is_next_only_without_a_gap() {
        let mut follower = Follower::after(0);
        assert_eq!(follower.read(history(1..=3)).events.len(), 3);
        assert_eq!(follower.step(&event(30, 3, Stage::Waiting)), Step::SeenWorker);
        assert_eq!(follower.step(&event(50, 5, Stage::Waiting)), Step::Gap);
        let new = follower.read(history(1..=5));
        assert_eq!(new.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(follower.step(&event(60, 6, Stage::Result)), Step::Next);
    }

    #[test]
    fn resumed_subscriber_gets_only_later_events() {
        let mut follower = Follower::after(20);
        let new = follower.read(history(1..=3));
        assert_eq!((new.events.len(), new.events[0].seq, new.has_ended), (1, 3, false));
        assert_eq!(follower.step(&event(40, 4, Stage::Waiting)), Step::Next);
    }

    #[test]
    fn position_beyond_the_call_is_kept() {
        let mut follower = Follower::after(1_000);
        assert!(follower.read(history(1..=3)).events.is_empty());
        assert_eq!(follower.step(&event(40, 4, Stage::Waiting)), Step::SeenWorker);
    }
}
