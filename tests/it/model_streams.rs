//! `POST /tool-calls/stream`: a model's stream in, its calls' events out (docs/reference/contract.md, section 8).

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::sse::Event;
use crate::support::{Client, EventStream};

mod broken;
mod lifecycle;
mod order;
mod vendors;

/// The sending side of a model's stream.
pub struct Pipe(mpsc::UnboundedSender<Bytes>);

impl Pipe {
    /// Opens a stream with this query and waits for the head of the response.
    pub async fn open(app: &Client, query: &str) -> (Self, EventStream) {
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        let body = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let piece = receiver.recv().await?;
            Some((Ok::<_, std::io::Error>(piece), receiver))
        });
        let request = app.request(Method::POST, &format!("/tool-calls/stream?{query}"));
        let request = request.header("content-type", "text/event-stream").body(reqwest::Body::wrap_stream(body));
        (Self(sender), app.events_from(request).await)
    }

    /// Returns `true` if the service reads no more of the stream.
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }

    fn send(&self, text: &str) {
        self.0.send(Bytes::copy_from_slice(text.as_bytes())).expect("the service reads on");
    }

    /// Sends events in Anthropic's format.
    pub fn say(&self, events: &[Value]) {
        self.send(&anthropic(events));
    }
}

/// Returns the next event that matches `like`.
pub async fn next(events: &mut EventStream, like: impl Fn(&Event) -> bool) -> Event {
    events.until(like).await.pop().expect("the last one is like this")
}

/// Sends a stream in chunks of `size` bytes and returns all events.
pub async fn piped(app: &Client, query: &str, stream: &str, size: usize) -> Vec<Event> {
    let (pipe, mut events) = Pipe::open(app, query).await;
    for piece in stream.as_bytes().chunks(size) {
        pipe.0.send(Bytes::copy_from_slice(piece)).unwrap();
    }
    drop(pipe);
    events.rest().await
}

/// Returns the data of the last event, which is the batch.
pub fn batch(events: &[Event]) -> &Value {
    let last = events.last().expect("events");
    assert_eq!(last.event, "batch", "{last:?}");
    &last.data
}

pub fn anthropic(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

pub fn message_start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}})
}

fn block(index: usize, id: &str, name: &str) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, text: &str) -> Value {
    let delta = json!({"type": "input_json_delta", "partial_json": text});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

/// Builds the events of a complete block.
pub fn call(index: usize, id: &str, name: &str, arguments: &Value) -> Vec<Value> {
    let text = arguments.to_string();
    let half = text.floor_char_boundary(text.len() / 2);
    vec![block(index, id, name), delta(index, &text[..half]), delta(index, &text[half..]), stop(index)]
}

pub fn end(reason: &str) -> Vec<Value> {
    vec![json!({"type": "message_delta", "delta": {"stop_reason": reason}}), json!({"type": "message_stop"})]
}
