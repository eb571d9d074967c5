//! Subscribers of `GET /events`: slow subscribers do not affect others, and all receive the same events.

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{App, Backend, Client, Event, EventStream, Options, bounded};

/// Opens a stream of all events with a small receive buffer and reads only the head. Uses HTTP/1.0, so that the body is
/// not chunked.
async fn sleeper(client: &Client) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = client.url("").trim_start_matches("http://").parse().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.0\r\nhost: x\r\naccept: text/event-stream\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(bounded("the head", stream.read_u8()).await.unwrap());
    }
    stream
}

/// Reads the stream to the end.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    bounded("the end of the stream", stream.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

fn is_result_of(event: &Event, call_id: &str) -> bool {
    event.is_result() && event.data["call_id"] == call_id
}

on_both_databases!(
    async fn sleeping_reader_is_cut_off_and_resumes_without_delaying_others(backend: Backend) {
        // Disables the write timeout, so that only the lag disconnects the subscriber.
        let configure: fn(&mut toolpost::config::Config) = |config| config.server.write_timeout_ms = 0;
        let app = App::start_with(backend, Options { configure: Some(configure), ..Options::default() }).await;
        let sleeping = sleeper(&app).await;
        let mut awake = app.events("/events").await;
        // More data than the socket buffers hold, then more commits than the maximum lag.
        let many = vec!["x".repeat(100); 3000];
        for n in 0..24 {
            let id = format!("large{n}");
            app.call_with(json!({"name": "echo", "id": id, "arguments": {"many": many}})).await;
            awake.until(|event| is_result_of(event, &id)).await;
        }
        for n in 0..300 {
            let id = format!("small{n}");
            app.call_with(json!({"name": "echo", "id": id})).await;
            awake.until(|event| is_result_of(event, &id)).await;
        }
        let slept = rest(sleeping).await;
        let metrics = app.get("/metrics").await.text();
        assert!(metrics.contains("\ntoolpost_sse_cut_off_total 1\n"), "{metrics}");
        assert!(slept.trim_end().ends_with(": cut off, too slow; resume with Last-Event-ID"), "it was not cut off");
        let mut seen = EventStream::new(stream::iter([Ok(Bytes::from(slept))])).rest().await;
        assert!(!seen.is_empty() && seen.len() < 324 * 5);
        let mut resumed = app.events_after("/events", &seen[seen.len() - 1].id).await;
        seen.extend(resumed.until(|event| is_result_of(event, "small299")).await);
        let ids: Vec<i64> = seen.iter().map(|event| event.id.parse().unwrap()).collect();
        assert_eq!(ids, (1..=324 * 5).collect::<Vec<_>>());
    }
);

/// Returns the bytes up to the end of this call.
async fn bytes_until(mut answer: reqwest::Response, call_id: &str) -> String {
    let mut text = String::new();
    let last = format!("\"call_id\":\"{call_id}\"");
    bounded("the last event", async {
        loop {
            let ended = text.rfind("event: tool_result").is_some_and(|at| text[at..].contains(&last));
            if ended && text.ends_with("\n\n") {
                return;
            }
            text.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
        }
    })
    .await;
    text
}

on_both_databases!(
    async fn fifty_readers_and_a_late_one_see_the_same_bytes(backend: Backend) {
        let app = App::start(backend).await;
        let open =
            async |path: &str| bounded("a stream", app.request(reqwest::Method::GET, path).send()).await.unwrap();
        let readers = join_all((0..50).map(|_| open("/events"))).await;
        for n in 0..20 {
            app.call_with(json!({"name": "wait", "id": format!("{n}"), "arguments": {"ms": 1, "steps": 1}})).await;
        }
        app.call_with(json!({"name": "echo", "id": "last", "arguments": {"text": "😀 \u{0}"}})).await;
        let all = join_all(readers.into_iter().map(|reader| bytes_until(reader, "last"))).await;
        assert!(all.iter().all(|bytes| *bytes == all[0]));
        assert_eq!(bytes_until(open("/events?after=0").await, "last").await, all[0]);
    }
);
