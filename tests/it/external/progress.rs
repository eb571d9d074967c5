//! `POST /tool-calls/{id}/progress`.

use serde_json::{Value, json};

use super::{answer, call_external, post_progress, service};
use crate::support::shapes::{failed, names_field, succeeded};
use crate::support::{Backend, Client};

/// Posts progress that the service accepts.
async fn report(client: &Client, id: &str, progress: Value) {
    let answer = post_progress(client, id, &progress).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

on_both_databases!(
    async fn reports_are_sent_and_accumulate(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = call_external(&app).await;
        let first = json!({"tip": "one", "params": {"a": {"x": 1}, "list": [1, 2]}, "metadata": {"m": {"x": 1}},
            "progress": {"current": 1, "total": 3, "message": "first"}});
        report(&app, &id, first).await;
        report(&app, &id, json!({"content": [{"type": "text", "text": "half"}], "details": {"step": 1}})).await;
        let second = json!({"tip": "two", "params": {"a": {"y": 2}, "list": [3]}, "metadata": {"m": {"y": 2}},
            "progress": {"current": 2, "total": 3}});
        report(&app, &id, second).await;
        let mut stream = app.events(&format!("/tool-calls/{id}/events")).await;
        let events = stream.until(|event| event.data["tip"] == "two").await;
        let one = events.iter().find(|event| event.data["tip"] == "one").unwrap();
        assert!(one.is_status("DOING"), "{one:#?}");
        assert_eq!(one.data["params"], json!({"a": {"x": 1}, "list": [1, 2]}));
        assert_eq!(one.data["progress"]["message"], "first");
        let shown = events.iter().find(|event| event.event == "progress").unwrap();
        assert_eq!(shown.data["content"], json!([{"type": "text", "text": "half"}]));
        assert_eq!(shown.data["details"], json!({"step": 1}));
        let call = app.stored(&id).await;
        assert_eq!((&call["tip"], &call["metadata"]["m"]), (&json!("two"), &json!({"x": 1, "y": 2})));
        assert_eq!((&call["progress"]["current"], &call["phase"]), (&json!(2.0), &json!("external")));
        let last = &events[events.len() - 1].data;
        assert_eq!(last["params"], json!({"a": {"x": 1, "y": 2}, "list": [3]}));
        answer(&app, &id, &json!("done")).await;
        let rest = stream.rest().await;
        assert_eq!(rest[rest.len() - 1].data["output"], "done", "progress is no part of the output");
    }
);

on_both_databases!(
    async fn progress_after_the_end_is_rejected(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = call_external(&app).await;
        answer(&app, &id, &json!("done")).await;
        let call = app.ended(&id).await;
        post_progress(&app, &id, &json!({"tip": "late"})).await.problem(409);
        assert_eq!(app.stored(&id).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_progress_is_rejected_and_changes_nothing() {
    let app = service(Backend::Sqlite, json!({})).await;
    let id = call_external(&app).await;
    let before = app.stored(&id).await;
    for (field, progress) in [
        ("tipp", json!({"tipp": "x"})),
        ("tip", json!({"tip": 5})),
        ("params", json!({"params": [1]})),
        ("metadata", json!({"metadata": "x"})),
        ("progress", json!({"progress": {"current": "one"}})),
        ("content", json!({"content": 5})),
        ("details", json!({"details": 1})),
    ] {
        names_field(&post_progress(&app, &id, &progress).await.problem(422), field);
    }
    assert_eq!(app.stored(&id).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_resets_the_clock_of_silence() {
    let app = service(Backend::Sqlite, json!({"limits": {"idle_timeout_ms": 2000}})).await;
    let id = call_external(&app).await;
    let begun = std::time::Instant::now();
    let mut pulse = tokio::time::interval(std::time::Duration::from_millis(50));
    for current in 0.. {
        pulse.tick().await;
        report(&app, &id, json!({"progress": {"current": current}})).await;
        if begun.elapsed().as_millis() > 2500 {
            break;
        }
    }
    answer(&app, &id, &json!("alive")).await;
    assert_eq!(succeeded(&app.ended(&id).await), "alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_the_wait_for_a_result() {
    let app = service(Backend::Sqlite, json!({})).await;
    let call = app.call_with(json!({"name": "ask", "limits": {"idle_timeout_ms": 60}})).await;
    assert_eq!(failed(&call, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 60ms (idle_timeout_ms)");
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_progress_delays_no_other_call() {
    let app = service(Backend::Sqlite, json!({"limits": {"max_concurrency": 1}})).await;
    let running = call_external(&app).await;
    let waiting = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    for n in 0..100 {
        report(&app, &running, json!({"content": format!("{n}")})).await;
    }
    for n in 0..100 {
        let answer = post_progress(&app, &waiting, &json!({"content": format!("{n}")})).await;
        // A waiting call may reject progress after any number of reports, but only with `OVERLOADED`.
        if answer.status != 202 {
            assert_eq!(answer.problem(503)["code"], "OVERLOADED");
            break;
        }
    }
    answer(&app, &running, &json!("one")).await;
    app.in_phase(&waiting, "external").await;
    answer(&app, &waiting, &json!("two")).await;
    assert_eq!(succeeded(&app.ended(&waiting).await), "two");
    let events = app.events(&format!("/tool-calls/{running}/events")).await.rest().await;
    assert_eq!(crate::support::sse::count(&events, "progress"), 100);
}
