//! Delays between attempts, and their visibility.

use serde_json::{Value, json};
use toolpost::domain::Time;

use super::{answers, patient, unavailable};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, Backend};

/// Returns all times in a value, at any depth, under any name.
fn times(value: &Value) -> Vec<Time> {
    match value {
        Value::String(text) => Time::parse(text).into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(times).collect(),
        Value::Object(members) => members.values().flat_map(times).collect(),
        _ => Vec::new(),
    }
}

on_both_databases!(
    async fn call_between_attempts_shows_the_time_of_the_next_one(backend: Backend) {
        let server = answers(vec![Answer::status(429, "text/plain", "busy").with_header("retry-after", "60")]).await;
        let retry = json!({"max_attempts": 3, "initial_backoff_ms": 1, "max_backoff_ms": 3_600_000, "jitter": 0});
        let app = patient(backend, &server, json!({"async": true, "retry": retry})).await;
        let id = app.accepted(json!({"name": "t"})).await;
        let mut stream = app.events(&format!("/tool-calls/{id}/events")).await;
        let events = stream.until(|event| event.data["phase"] == "retrying").await;
        let last = &events[events.len() - 1];
        assert!(last.is_status("DOING"), "{last:#?}");
        let call = app.in_phase(&id, "retrying").await;
        assert_eq!((&call["status"], &call["attempts"]), (&json!("DOING"), &json!(1)));
        let begun = Time::parse(call["started_at"].as_str().unwrap()).unwrap();
        for shown in [&last.data["metadata"], &call["metadata"]] {
            let found = times(shown);
            let next = found.iter().any(|time| (59_000..90_000).contains(&time.millis_since(begun)));
            assert!(next, "no time of the next attempt after {begun:?} in {shown:#}");
        }
        assert_eq!(server.requests().len(), 1);
        app.cancel(&id).await;
        assert_eq!(failed(&app.ended(&id).await, "CANCELLED"), "Error: Operation aborted");
        assert_eq!(server.requests().len(), 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_respected() {
    for status in [429, 503] {
        let busy = Answer::status(status, "text/plain", "busy").with_header("retry-after", "1");
        let server = answers(vec![busy, Answer::text("done")]).await;
        let app = patient(Backend::Sqlite, &server, json!({})).await;
        let call = app.call("t", json!({})).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(2)));
        let took = call["duration_ms"].as_u64().unwrap();
        assert!(took >= 950, "{status}: came again after {took} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_grow_between_attempts() {
    let server = answers(vec![unavailable()]).await;
    let retry = json!({"max_attempts": 3, "initial_backoff_ms": 100, "backoff_multiplier": 3.0,
        "max_backoff_ms": 10_000, "jitter": 0});
    let app = patient(Backend::Sqlite, &server, json!({"retry": retry})).await;
    let took = app.call("t", json!({})).await["duration_ms"].as_u64().unwrap();
    // The backoffs are 100 ms and 300 ms.
    assert!(took >= 380, "{took} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_is_capped() {
    let server = answers(vec![unavailable(), unavailable(), Answer::text("done")]).await;
    // Without the maximum, this would take hours.
    let retry = json!({"max_attempts": 3, "initial_backoff_ms": 3_600_000, "max_backoff_ms": 5, "jitter": 0.5});
    let app = patient(Backend::Sqlite, &server, json!({"retry": retry})).await;
    assert_eq!(succeeded(&app.call("t", json!({})).await), "done");
}
