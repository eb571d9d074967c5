//! Reassembly of the calls from the events of a stream, and the streams of `tests/fixtures/streams`.

mod anthropic;
mod fixtures;
mod frames;
mod gemini;
mod openai;
mod responses;

use serde_json::Value;

use super::*;

/// A call reassembled from events.
#[derive(Debug, Clone, PartialEq)]
struct StreamedCall {
    id: Option<String>,
    name: String,
    kind: Kind,
    /// The last known arguments: the text of the deltas, or a value.
    text: String,
    value: Option<Value>,
    /// The final arguments, parsed if they are JSON text; `Some` if the call may start.
    closed: Option<Value>,
    cut_off: bool,
}

/// All events of a stream, checked against the rules for every stream.
#[derive(Debug, Clone, PartialEq, Default)]
struct Story {
    calls: Vec<StreamedCall>,
    ended: bool,
    broken: Option<StreamError>,
}

impl Story {
    fn add(&mut self, event: StreamEvent) {
        let open = |calls: &mut Vec<StreamedCall>, call_index: usize| {
            let call = &calls[call_index];
            assert!(call.closed.is_none() && !call.cut_off, "the call is already settled: {call:?}");
            call_index
        };
        match event {
            StreamEvent::Opened { call_index, id, name, kind } => {
                assert_eq!(call_index, self.calls.len());
                let (text, value) = (String::new(), None);
                self.calls.push(StreamedCall { id, name, kind, text, value, closed: None, cut_off: false });
            }
            StreamEvent::Delta { call_index, text } => {
                assert!(!text.is_empty());
                let call_index = open(&mut self.calls, call_index);
                self.calls[call_index].text.push_str(&text);
            }
            StreamEvent::Value { call_index, arguments } => {
                let call_index = open(&mut self.calls, call_index);
                self.calls[call_index].value = Some(arguments);
            }
            StreamEvent::Closed { call_index, arguments } => {
                let call = open(&mut self.calls, call_index);
                let call = &mut self.calls[call];
                let arguments = arguments.unwrap_or_else(|| call.text.clone().into());
                call.closed = Some(meant(arguments));
            }
            StreamEvent::Truncated { call_index } => {
                let call_index = open(&mut self.calls, call_index);
                self.calls[call_index].cut_off = true;
            }
            StreamEvent::Ended => assert!(!std::mem::replace(&mut self.ended, true), "ended twice"),
        }
    }

    /// Returns the name and the final arguments of each call.
    fn short(&self) -> Vec<(&str, Option<&Value>)> {
        self.calls.iter().map(|call| (call.name.as_str(), call.closed.as_ref())).collect()
    }
}

fn meant(arguments: Value) -> Value {
    match arguments {
        Value::String(text) if text.trim().is_empty() => serde_json::json!({}),
        Value::String(text) => json::parse(text.as_bytes()).unwrap_or(Value::String(text)),
        other => other,
    }
}

/// Parses a body that arrives in these chunks and then ends.
fn parse<'p>(vendor: Option<Vendor>, pieces: impl IntoIterator<Item = &'p [u8]>) -> Story {
    let (mut parser, mut story, mut out) = (Parser::new(vendor), Story::default(), Vec::new());
    for piece in pieces {
        let pushed = parser.push(piece, &mut out);
        assert!(story.broken.is_none() || pushed.is_err(), "whole again");
        story.broken = pushed.err();
    }
    parser.finish(&mut out);
    parser.finish(&mut out);
    out.into_iter().for_each(|event| story.add(event));
    assert!(story.calls.iter().all(|call| call.cut_off != call.closed.is_some()), "a call stays open");
    assert!(!story.ended || parser.has_ended());
    story
}

/// Parses a body, and checks that the result does not depend on its chunks.
fn story(body: &str) -> Story {
    let whole = parse(None, [body.as_bytes()]);
    assert_eq!(parse(None, body.as_bytes().chunks(1)), whole, "byte by byte");
    for at in 0..=body.len() {
        let (before, after) = body.as_bytes().split_at(at);
        assert_eq!(parse(None, [before, after]), whole, "in two chunks at {at}");
        // A call that is closed in a truncated stream is closed with the same arguments in the full stream.
        for (cut, call) in parse(None, [before]).calls.iter().zip(&whole.calls) {
            assert!(
                cut.closed.is_none() || cut.closed == call.closed && cut.name == call.name,
                "truncated at {at}: {cut:?}"
            );
        }
    }
    whole
}

/// Formats events as an event stream.
fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// Parses events.
fn parse_events(events: &[Value]) -> Story {
    story(&sse(events))
}
