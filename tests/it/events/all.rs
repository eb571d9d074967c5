//! `GET /events`.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::sse::{count, statuses};
use crate::support::{App, Backend, Event, raw};

on_both_databases!(
    async fn subscriber_of_all_sees_every_call(backend: Backend) {
        let app = App::start(backend).await;
        let mut stream = app.events("/events").await;
        let names = ["echo", "nobody", "calculate"];
        for name in names {
            app.call_with(json!({"name": name, "id": name})).await;
        }
        let events = stream.until(|event| event.is_result() && event.data["call_id"] == "calculate").await;
        for name in names {
            let own: Vec<Event> = events.iter().filter(|event| event.data["name"] == name).cloned().collect();
            assert_eq!((count(&own, "tool_call"), count(&own, "tool_result")), (1, 1), "{name}");
            assert_eq!(statuses(&own)[0], "WAIT");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_of_one_tool_sees_only_its_calls() {
    let app = App::on_sqlite().await;
    app.echo_of("wanted", json!({})).await;
    let mut stream = app.events("/events?name=wanted").await;
    for (n, name) in ["echo", "wanted", "echo", "wanted"].into_iter().enumerate() {
        app.call_with(json!({"name": name, "id": format!("{n}")})).await;
    }
    let events = stream.until(|event| event.is_result() && event.data["call_id"] == "3").await;
    assert!(events.iter().all(|event| event.data["name"] == "wanted"), "{events:#?}");
    assert_eq!(count(&events, "tool_result"), 2);
}

on_both_databases!(
    async fn events_of_parallel_calls_are_sent_once_in_order(backend: Backend) {
        let app = App::start(backend).await;
        let mut stream = app.events("/events").await;
        let calls: Vec<_> = (0..100).map(|n| json!({"name": "echo", "id": format!("{n}")})).collect();
        let batch = tokio::spawn({
            let client = (*app).clone();
            async move { client.batch(json!({"calls": calls, "mode": "parallel"})).await }
        });
        let mut events = Vec::new();
        while count(&events, "tool_result") < 100 {
            events.push(stream.next().await.unwrap());
        }
        batch.await.unwrap();
        for n in 0..100 {
            let own: Vec<Event> =
                events.iter().filter(|event| event.data["call_id"] == format!("{n}")).cloned().collect();
            assert_eq!((count(&own, "tool_call"), count(&own, "tool_result")), (1, 1), "{n}");
            assert_eq!((own[0].event.as_str(), statuses(&own)), ("tool_call", vec!["WAIT", "DOING", "SUCCESS"]));
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stalled_reader_slows_no_other() {
    let app = App::on_sqlite().await;
    let mut sleeper = raw::connect(&app).await;
    sleeper.write_all(b"GET /events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n").await.unwrap();
    let mut reader = app.events("/events").await;
    let many = vec!["x".repeat(100); 3000];
    for n in 0..40 {
        let call = app.call_with(json!({"name": "echo", "id": format!("{n}"), "arguments": {"many": many}})).await;
        assert_eq!(call["status"], "SUCCESS");
        reader.until(|event| event.is_result() && event.data["call_id"] == format!("{n}")).await;
    }
    drop(sleeper);
}

#[tokio::test(flavor = "multi_thread")]
async fn future_position_means_now() {
    let app = App::on_sqlite().await;
    let mut stream = app.events("/events?after=99999999").await;
    app.call_with(json!({"name": "echo", "id": "heard"})).await;
    let events = stream.until(Event::is_result).await;
    assert_eq!(events[0].data["call_id"], "heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_texts_are_limited_to_8000_characters() {
    fn longest(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::String(text) => text.chars().count(),
            serde_json::Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
            serde_json::Value::Object(members) => members.values().map(longest).max().unwrap_or(0),
            _ => 0,
        }
    }
    let app = App::on_sqlite().await;
    let long = "x".repeat(20_000);
    for body in
        [json!({"name": "echo", "arguments": {"a": [long]}}), json!({"name": "wait", "arguments": {"ms": long}})]
    {
        let mut stream = app.call_streamed(&body).await;
        let events = stream.until(|event| event.event == "batch").await;
        for event in &events {
            assert!(longest(&event.data) <= 8000, "{}: {}", event.event, longest(&event.data));
        }
    }
}
