//! The events of an ended call.

use serde_json::{Value, json};

use crate::support::shapes::{HARD_TEXT, is_time};
use crate::support::sse::{count, statuses};
use crate::support::{App, Backend, Event};

async fn events_of(app: &App, call: &Value) -> Vec<Event> {
    app.events(&format!("/tool-calls/{}/events", call["id"].as_str().unwrap())).await.rest().await
}

on_both_databases!(
    async fn late_subscriber_gets_the_full_history_and_the_end(backend: Backend) {
        let app = App::start(backend).await;
        let call = app.call("echo", json!({"a": 1})).await;
        let events = events_of(&app, &call).await;
        assert_eq!(events[0].event, "tool_call");
        assert_eq!(statuses(&events), ["WAIT", "DOING", "SUCCESS"]);
        assert_eq!((count(&events, "tool_call"), count(&events, "tool_result")), (1, 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_that_never_ran_goes_from_wait_to_error() {
    let app = App::on_sqlite().await;
    for (name, arguments) in [("nobody", json!({})), ("echo", json!("{")), ("echo", json!([]))] {
        let call = app.call(name, arguments).await;
        let events = events_of(&app, &call).await;
        assert_eq!(statuses(&events), ["WAIT", "ERROR"]);
        assert_eq!((count(&events, "tool_call"), count(&events, "tool_result")), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_has_exactly_one_result() {
    let app = App::on_sqlite().await;
    let call = app.call_with(json!({"name": "wait", "arguments": {"ms": 60_000}, "limits": {"timeout_ms": 30}})).await;
    let events = events_of(&app, &call).await;
    assert_eq!(statuses(&events), ["WAIT", "DOING", "ERROR"]);
    assert_eq!(count(&events, "tool_result"), 1);
    let result = events.iter().find(|event| event.is_result()).unwrap();
    assert_eq!((&result.data["is_error"], &result.data["error"]["code"]), (&json!(true), &json!("TOOL_TIMEOUT")));
    assert_eq!(result.data["output"], call["output"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_has_its_own_id_and_names_its_call() {
    let app = App::on_sqlite().await;
    let body = json!({"calls": [{"name": "wait", "id": "mine", "arguments": {"ms": 6, "steps": 3}}]});
    let call = app.batch(body).await.remove(0);
    let events = events_of(&app, &call).await;
    for event in &events {
        assert!(!event.id.is_empty(), "{event:?}");
        assert_eq!((&event.data["id"], &event.data["call_id"]), (&call["id"], &json!("mine")));
        assert_eq!((&event.data["name"], &event.data["batch_id"]), (&json!("wait"), &call["batch_id"]));
    }
    let mut ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn first_event_shows_the_request() {
    let app = App::on_sqlite().await;
    let call = app.call_with(json!({"name": "echo", "id": "c1", "arguments": {"a": 1}})).await;
    let first = events_of(&app, &call).await.remove(0);
    assert_eq!(first.event, "tool_call");
    assert_eq!((&first.data["arguments"], &first.data["title"]), (&json!({"a": 1}), &call["title"]));
    assert!(is_time(&first.data["at"]), "{}", first.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_status_shows_the_full_state() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"a": 1})).await;
    let events = events_of(&app, &call).await;
    let last = &events.iter().rfind(|event| event.event == "status").unwrap().data;
    assert_eq!((&last["status"], &last["phase"]), (&json!("SUCCESS"), &json!("done")));
    assert_eq!((&last["started_at"], &last["ended_at"]), (&call["started_at"], &call["ended_at"]));
    assert_eq!((&last["duration_ms"], &last["metadata"]), (&call["duration_ms"], &call["metadata"]));
    assert!(last["params"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn result_event_equals_the_response() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"a": 1})).await;
    let events = events_of(&app, &call).await;
    let result = &events.iter().find(|event| event.is_result()).unwrap().data;
    for field in ["output", "content", "details", "is_error"] {
        assert_eq!(result[field], call[field], "{field}");
    }
}

on_both_databases!(
    async fn steps_are_sent_in_order_and_stay_until_replaced(backend: Backend) {
        let app = App::start(backend).await;
        let call = app.call("wait", json!({"ms": 9, "steps": 3})).await;
        let events = events_of(&app, &call).await;
        let steps: Vec<f64> = events
            .iter()
            .filter(|event| event.event == "status")
            .filter_map(|event| event.data["progress"]["current"].as_f64())
            .collect();
        assert!(steps.is_sorted() && steps.last() == Some(&3.0), "{steps:?}");
    }
);

on_both_databases!(
    async fn any_text_survives_in_events(backend: Backend) {
        let app = App::start(backend).await;
        let arguments = json!({HARD_TEXT: HARD_TEXT});
        let call = app.call_with(json!({"name": "echo", "id": HARD_TEXT, "arguments": arguments})).await;
        let events = events_of(&app, &call).await;
        assert_eq!(events[0].data["arguments"], arguments);
        assert!(events.iter().all(|event| event.data["call_id"] == HARD_TEXT));
        let result = events.iter().find(|event| event.is_result()).unwrap();
        assert_eq!(result.data["output"], arguments.to_string());
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unknown_call_is_a_404() {
    let app = App::on_sqlite().await;
    app.get("/tool-calls/0197a1b2-0000-7000-8000-000000000000/events").await.problem(404);
}
