//! Server-Sent Events as bytes (WHATWG HTML, section 9.2): made once per event, shared by all who read.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use super::render;
use crate::domain::event::Event;
use crate::store::journal::Committed;

/// What keeps an idle stream open.
pub const HEARTBEAT: Bytes = Bytes::from_static(b": still here\n\n");
/// What a stream begins with, so that a proxy passes the head on at once.
pub const OPENING: Bytes = Bytes::from_static(b": toolpost\n\n");
/// What a reader that is too slow sees last.
pub const CUT_OFF: Bytes = Bytes::from_static(b": cut off, too slow; resume with Last-Event-ID\n\n");

/// A committed event; its frame is made when the first reader wants it.
#[derive(Debug)]
pub struct Framed {
    /// The event.
    pub event: Event,
    frame: OnceLock<Bytes>,
}

impl From<Event> for Framed {
    fn from(event: Event) -> Self {
        Self { event, frame: OnceLock::new() }
    }
}

impl Framed {
    /// The event on the wire.
    pub fn bytes(&self) -> Bytes {
        self.frame.get_or_init(|| frame(self.event.pos, self.event.kind().as_str(), &render::data(&self.event))).clone()
    }
}

/// One frame; `data` has no line breaks.
#[must_use]
pub fn frame(id: i64, event: &str, data: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"))
}

/// A commit's events, and all their frames in a row.
#[derive(Debug)]
pub struct Chunk {
    /// Position of the last event.
    pub last_pos: i64,
    /// The events.
    pub events: Vec<Arc<Framed>>,
    joined: OnceLock<Bytes>,
}

impl From<&Committed> for Chunk {
    fn from(committed: &Committed) -> Self {
        let events = committed.events().into_iter().map(|event| Arc::new(event.into())).collect();
        Self { last_pos: committed.last_pos, events, joined: OnceLock::new() }
    }
}

impl Chunk {
    /// All frames in order.
    pub fn bytes(&self) -> Bytes {
        let join = || {
            let mut joined = BytesMut::new();
            for event in &self.events {
                joined.extend_from_slice(&event.bytes());
            }
            joined.freeze()
        };
        self.joined.get_or_init(join).clone()
    }
}
