//! Resumed event streams, without gaps or repeats.

use serde_json::{Value, json};

use crate::support::{App, Backend, Event};

fn path(call: &Value) -> String {
    format!("/tool-calls/{}/events", call["id"].as_str().unwrap())
}

fn encoded(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string()
}

async fn call_with_steps(app: &App) -> (Value, Vec<Event>) {
    let call = app.call("wait", json!({"ms": 6, "steps": 2})).await;
    let events = app.events(&path(&call)).await.rest().await;
    assert!(events.len() >= 5, "{events:#?}");
    (call, events)
}

on_both_databases!(
    async fn stream_resumes_after_each_of_its_events(backend: Backend) {
        let app = App::start(backend).await;
        let (call, events) = call_with_steps(&app).await;
        for (index, event) in events.iter().enumerate() {
            let by_header = app.events_after(&path(&call), &event.id).await.rest().await;
            assert_eq!(by_header, events[index + 1..]);
            let by_query = app.events(&format!("{}?after={}", path(&call), encoded(&event.id))).await.rest().await;
            assert_eq!(by_query, events[index + 1..]);
        }
    }
);

on_both_databases!(
    async fn stream_resumes_across_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        let (call, events) = call_with_steps(&app).await;
        let app = app.restart().await;
        assert_eq!(app.events(&path(&call)).await.rest().await, events);
        assert_eq!(app.events_after(&path(&call), &events[1].id).await.rest().await, events[2..]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stream_resumes_on_another_node() {
    requires_postgres!();
    let app = App::start(Backend::Postgres).await;
    let other = app.second().await;
    let (call, events) = call_with_steps(&app).await;
    assert_eq!(other.events(&path(&call)).await.rest().await, events);
    assert_eq!(other.events_after(&path(&call), &events[0].id).await.rest().await, events[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_stream_equals_the_stream_of_the_call() {
    let app = App::on_sqlite().await;
    let mut streamed = app.call_streamed(&json!({"name": "echo", "arguments": {"a": 1}})).await.rest().await;
    assert_eq!(streamed.pop().unwrap().event, "batch");
    let own = app.events(&path(&streamed[0].data)).await.rest().await;
    let contents = |events: &[Event]| events.iter().map(|e| (e.event.clone(), e.data.clone())).collect::<Vec<_>>();
    assert_eq!(contents(&streamed), contents(&own));
}

on_both_databases!(
    async fn stream_of_all_resumes_after_each_of_its_events(backend: Backend) {
        let app = App::start(backend).await;
        let mut stream = app.events("/events").await;
        for n in 0..4 {
            app.call_with(json!({"name": "echo", "id": format!("{n}")})).await;
        }
        let is_last = |event: &Event| event.is_result() && event.data["call_id"] == "3";
        let events = stream.until(is_last).await;
        for (index, event) in events.iter().enumerate().take(events.len() - 1) {
            let mut by_header = app.events_after("/events", &event.id).await;
            assert_eq!(by_header.until(is_last).await, events[index + 1..], "after {index}");
            let mut by_query = app.events(&format!("/events?after={}", encoded(&event.id))).await;
            assert_eq!(by_query.until(is_last).await, events[index + 1..], "after {index}");
        }
    }
);

on_both_databases!(
    async fn stream_of_all_resumes_across_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        let mut stream = app.events("/events").await;
        app.call_with(json!({"name": "echo", "id": "first"})).await;
        let events = stream.until(Event::is_result).await;
        app.call_with(json!({"name": "echo", "id": "second"})).await;
        drop(stream);
        let app = app.restart().await;
        app.call_with(json!({"name": "echo", "id": "third"})).await;
        let mut resumed = app.events_after("/events", &events[events.len() - 1].id).await;
        let missed = resumed.until(|event| event.is_result() && event.data["call_id"] == "third").await;
        let results: Vec<&Value> = missed.iter().filter(|e| e.is_result()).map(|e| &e.data["call_id"]).collect();
        assert_eq!(results, ["second", "third"]);
        assert!(missed.iter().all(|event| event.data["call_id"] != "first"));
    }
);
