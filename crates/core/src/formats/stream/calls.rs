//! The calls of a stream, for all vendors: each call is opened once, receives its arguments, and is closed or truncated
//! once.

use serde_json::{Map, Value};

use super::error::{MAX_CALLS, StreamError};
use super::scan::Scan;
use super::{Kind, StreamEvent};

/// The state of the calls of a stream.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Events that the parser has not returned yet.
    pub(super) events: Vec<StreamEvent>,
    has_ended: bool,
    has_sent_end: bool,
}

#[derive(Debug)]
struct Call {
    kind: Kind,
    is_open: bool,
    /// The state of the text of the deltas.
    scan: Scan,
}

impl Calls {
    /// Opens a call.
    pub(super) fn open(&mut self, id: Option<String>, name: String, kind: Kind) -> Result<usize, StreamError> {
        let call_index = self.calls.len();
        if call_index == MAX_CALLS {
            return Err(StreamError::TooManyCalls);
        }
        self.calls.push(Call { kind, is_open: true, scan: Scan::default() });
        self.events.push(StreamEvent::Opened { call_index, id, name, kind });
        Ok(call_index)
    }

    fn open_call(&mut self, call_index: usize) -> Option<&mut Call> {
        self.calls.get_mut(call_index).filter(|call| call.is_open)
    }

    pub(super) fn is_open(&self, call_index: usize) -> bool {
        self.calls.get(call_index).is_some_and(|call| call.is_open)
    }

    /// Appends text to the arguments, or to the free text of a custom call.
    pub(super) fn delta(&mut self, call_index: usize, text: String) {
        let Some(call) = self.open_call(call_index).filter(|_| !text.is_empty()) else { return };
        let text = match call.kind {
            Kind::Custom if call.scan.is_blank() => format!("{{\"input\":\"{}", escaped(&text)),
            Kind::Custom => escaped(&text),
            _ => text,
        };
        call.scan.push(&text);
        self.events.push(StreamEvent::Delta { call_index, text });
    }

    /// Replaces the arguments so far.
    pub(super) fn value(&mut self, call_index: usize, arguments: Value) {
        if self.is_open(call_index) {
            self.events.push(StreamEvent::Value { call_index, arguments });
        }
    }

    /// Returns `true` if the deltas form a complete object.
    pub(super) fn is_complete(&self, call_index: usize) -> bool {
        self.calls.get(call_index).is_some_and(|call| call.scan.is_complete())
    }

    /// Returns `true` if the call has received deltas.
    pub(super) fn has_text(&self, call_index: usize) -> bool {
        self.calls.get(call_index).is_some_and(|call| !call.scan.is_blank())
    }

    /// Closes a call. `arguments` are the final arguments according to the provider, or the text of a custom call.
    pub(super) fn close(&mut self, call_index: usize, arguments: Option<Value>) {
        let Some(call) = self.open_call(call_index) else { return };
        call.is_open = false;
        let (kind, is_blank) = (call.kind, call.scan.is_blank());
        let arguments = match arguments {
            Some(text) if kind == Kind::Custom => Some(Map::from_iter([("input".to_owned(), text)]).into()),
            None if kind == Kind::Custom => {
                let text = if is_blank { "{\"input\":\"\"}" } else { "\"}" };
                self.events.push(StreamEvent::Delta { call_index, text: text.to_owned() });
                None
            }
            arguments => arguments,
        };
        self.events.push(StreamEvent::Closed { call_index, arguments });
    }

    /// Truncates a call because the output ended within it.
    pub(super) fn truncate(&mut self, call_index: usize) {
        if let Some(call) = self.open_call(call_index) {
            call.is_open = false;
            self.events.push(StreamEvent::Truncated { call_index });
        }
    }

    /// Truncates all open calls.
    pub(super) fn truncate_all(&mut self) {
        (0..self.calls.len()).for_each(|call_index| self.truncate(call_index));
    }

    /// Records that the provider marked the end of the message. More events may follow.
    pub(super) fn mark_end(&mut self) {
        self.has_ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        if !std::mem::replace(&mut self.has_sent_end, true) {
            self.events.push(StreamEvent::Ended);
        }
    }
}

/// Escapes a text for a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
