//! The events of a stream of one call are numbered without a gap, whenever the stream is opened.

use futures_util::stream::{self, StreamExt};
use serde_json::json;

use crate::chaos::times;
use crate::support::calls::id_of;
use crate::support::{App, Backend, Client};

/// Number of calls at a time.
const AT_ONCE: usize = 16;

/// Runs a short call that waits for its result, and returns the numbers of its events. `turns` is the time between its
/// acceptance and the opening of the stream.
async fn numbers(client: &Client, repeats: usize) -> Vec<u64> {
    let id = id_of(&client.post("/tool-calls", &json!({"name": "ask", "wait": "accepted"})).await.json);
    for _ in 0..repeats {
        tokio::task::yield_now().await;
    }
    let path = format!("/tool-calls/{id}/events");
    let stream = client.events(&path);
    let posting = async {
        // The result is refused as long as the call has not been handed out.
        while client.post(&format!("/tool-calls/{id}/result"), &json!("done")).await.status == 409 {}
    };
    let (mut stream, ()) = tokio::join!(stream, posting);
    stream.rest().await.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect()
}

on_both_databases!(
    async fn streams_of_short_calls_lack_no_event(backend: Backend) {
        let app = App::start(backend).await;
        app.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}}))
            .await;
        let calls = stream::iter(0..times(300, 20_000)).map(|number| numbers(&app, number % 64));
        let found: Vec<Vec<u64>> = calls.buffer_unordered(AT_ONCE).collect().await;
        for numbers in found {
            let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, expected);
            assert!(numbers.len() >= 5, "{numbers:?}");
        }
    }
);
