//! A reader of `text/event-stream` (WHATWG HTML, section 9.2).

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::Value;

use super::bounded;

/// An event. `id` is the id in this event, not the last id of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: Value,
}

/// An open stream with a timeout for every wait.
pub struct EventStream {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    unread: Vec<u8>,
    open: Fields,
    ready: VecDeque<Event>,
    comments: usize,
}

#[derive(Default)]
struct Fields {
    id: String,
    event: String,
    data: Vec<String>,
}

impl EventStream {
    pub fn new(bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> Self {
        let (bytes, unread) = (Box::pin(bytes), Vec::new());
        Self { bytes, unread, open: Fields::default(), ready: VecDeque::new(), comments: 0 }
    }

    /// Returns the next event, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        bounded("an event", self.next_at_any_time()).await
    }

    /// Returns the next event as [`EventStream::next`] does, without a timeout.
    pub async fn next_at_any_time(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// Waits for a comment line.
    pub async fn comment(&mut self) {
        bounded("a comment", async {
            while self.comments == 0 {
                assert!(self.read().await, "the stream ended");
            }
        })
        .await;
    }

    /// Returns all events up to and including the first that `is_last` accepts.
    pub async fn until(&mut self, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended after {events:#?}"));
            events.push(event);
            if is_last(&events[events.len() - 1]) {
                return events;
            }
        }
    }

    /// Returns all events to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    async fn read(&mut self) -> bool {
        let Some(chunk) = self.bytes.next().await else { return false };
        self.unread.extend_from_slice(&chunk.unwrap());
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            self.line(line.trim_end_matches(['\r', '\n']));
        }
        true
    }

    fn line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" if line.is_empty() => self.dispatch(),
            "" => self.comments += 1,
            "id" => self.open.id = value,
            "event" => self.open.event = value,
            "data" => self.open.data.push(value),
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let Fields { id, event, data } = std::mem::take(&mut self.open);
        if !data.is_empty() {
            let data = data.join("\n");
            // MCP streams begin with an event without data, which carries an id.
            let data = if data.is_empty() { Value::Null } else { serde_json::from_str(&data).unwrap() };
            self.ready.push_back(Event { id, event, data });
        }
    }
}

impl Event {
    /// Returns `true` if the event has the outcome of its call.
    pub fn is_result(&self) -> bool {
        self.event == "tool_result"
    }

    /// Returns `true` if the event reports this status.
    pub fn is_status(&self, status: &str) -> bool {
        self.event == "status" && self.data["status"] == status
    }
}

/// Returns the statuses of a call in order, without repetitions.
pub fn statuses(events: &[Event]) -> Vec<&str> {
    let mut all: Vec<&str> =
        events.iter().filter(|e| e.event == "status").map(|e| e.data["status"].as_str().unwrap()).collect();
    all.dedup();
    all
}

/// Returns the number of events of a kind.
pub fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.event == kind).count()
}
