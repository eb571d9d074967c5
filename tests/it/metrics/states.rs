//! Gauges, which show the state at the time of the request.

use serde_json::json;

use crate::support::calls::with;
use crate::support::{Answer, App, Backend, HttpTool};

#[tokio::test(flavor = "multi_thread")]
async fn running_and_waiting_calls_are_measured_with_their_wait() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
    app.tool("one", &server, json!({"limits": {"max_concurrency": 1}})).await;
    let accepted = |id: &str| with(json!({"name": "one", "wait": "accepted"}), json!({"id": id}));
    for id in ["a", "b", "c"] {
        assert_eq!(app.post("/tool-calls", &accepted(id)).await.status, 202);
    }
    server.received(1).await;
    let found = app
        .counted(&[
            ("toolpost_calls_running", 1.0),
            ("toolpost_queue_length", 2.0),
            ("toolpost_queue_accepted", 3.0),
            ("toolpost_queue_accepted_limit", 10_000.0),
            ("toolpost_queue_wait_seconds_count", 1.0),
        ])
        .await;
    assert!(found.get("toolpost_in_flight_memory_bytes").unwrap() > 0.0);
    server.open();
    app.counted(&[
        ("toolpost_calls_running", 0.0),
        ("toolpost_queue_length", 0.0),
        ("toolpost_queue_accepted", 0.0),
        ("toolpost_queue_wait_seconds_count", 3.0),
        ("toolpost_in_flight_memory_bytes", 0.0),
        ("toolpost_in_flight_memory_limit_bytes", 268_435_456.0),
        ("toolpost_journal_changes_waiting", 0.0),
        (r#"toolpost_calls_total{tool="one",outcome="SUCCESS"}"#, 3.0),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_event_streams_are_counted_while_they_are_read() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
    app.http_tool("slow", &server).await;
    let call = app.post("/tool-calls", &json!({"name": "slow", "wait": "accepted"})).await;
    let id = call.json["id"].as_str().unwrap().to_owned();
    let of_all = app.events("/events").await;
    let mut of_call = app.events(&format!("/tool-calls/{id}/events")).await;
    let (calls, all) = (r#"toolpost_sse_subscribers{stream="calls"}"#, r#"toolpost_sse_subscribers{stream="all"}"#);
    app.counted(&[(calls, 1.0), (all, 1.0), ("toolpost_sse_cut_off_total", 0.0)]).await;
    drop(of_all);
    app.counted(&[(calls, 1.0), (all, 0.0)]).await;
    server.open();
    of_call.rest().await;
    app.counted(&[(calls, 0.0), (all, 0.0)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_database_is_a_zero_and_other_metrics_are_exported() {
    let app = App::on_sqlite().await;
    let found = app.metrics().await;
    assert_eq!(found.get("toolpost_database_up"), Some(1.0));
    let tools = found.get("toolpost_tools").unwrap();
    assert!(tools >= 4.0, "{tools}");
    app.store().close().await;
    let found = app.metrics().await;
    assert_eq!((found.get("toolpost_database_up"), found.get("toolpost_tools")), (Some(0.0), Some(tools)));
}
