//! `Accept: text/event-stream` on `POST /tool-calls`.

use reqwest::Method;
use serde_json::json;

use crate::support::client::send;
use crate::support::sse::{count, statuses};
use crate::support::{Answer, App, Backend, HttpTool};

on_both_databases!(
    async fn streamed_call_has_its_events_and_ends_with_batch(backend: Backend) {
        let app = App::start(backend).await;
        let body = json!({"name": "echo", "arguments": {"a": 1}, "id": "call_1"});
        let events = app.call_streamed(&body).await.rest().await;
        assert_eq!(events[0].event, "tool_call");
        assert_eq!(events[events.len() - 1].event, "batch");
        assert_eq!(statuses(&events), ["WAIT", "DOING", "SUCCESS"]);
        for kind in ["tool_call", "tool_result", "batch"] {
            assert_eq!(count(&events, kind), 1, "{kind}");
        }
        assert!(events.iter().filter(|e| e.event != "batch").all(|e| e.data["call_id"] == "call_1"));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn streamed_batch_has_each_call_and_ends_once() {
    let app = App::on_sqlite().await;
    let calls = json!([{"name": "echo", "id": "a"}, {"name": "nobody", "id": "b"}, {"name": "echo", "id": "c"}]);
    let events = app.call_streamed(&json!({"calls": calls})).await.rest().await;
    assert_eq!(events[events.len() - 1].event, "batch");
    assert_eq!(count(&events, "batch"), 1);
    for id in ["a", "b", "c"] {
        let own: Vec<_> = events.iter().filter(|event| event.data["call_id"] == id).cloned().collect();
        assert_eq!((count(&own, "tool_call"), count(&own, "tool_result")), (1, 1), "{id}");
        let last = if id == "b" { "ERROR" } else { "SUCCESS" };
        assert_eq!(statuses(&own).last(), Some(&last));
    }
    let batch_id = &events[events.len() - 1].data["batch_id"];
    assert!(batch_id.is_string());
    assert!(events.iter().all(|event| event.data["batch_id"] == *batch_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_call_has_live_events() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("late")))).await;
    app.http_tool("slow", &server).await;
    let mut stream = app.call_streamed(&json!({"name": "slow"})).await;
    stream.until(|event| event.is_status("DOING")).await;
    server.open();
    let rest = stream.rest().await;
    assert_eq!(rest.iter().find(|event| event.is_result()).unwrap().data["output"], "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_has_only_the_events_of_its_calls() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("late")))).await;
    app.http_tool("slow", &server).await;
    let mut stream = app.call_streamed(&json!({"name": "slow", "id": "mine"})).await;
    let mut events = stream.until(|event| event.is_status("DOING")).await;
    app.call("echo", json!({})).await;
    server.open();
    events.extend(stream.rest().await);
    assert!(events.iter().filter(|e| e.event != "batch").all(|e| e.data["call_id"] == "mine"), "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_streamed_request_is_a_problem() {
    let app = App::on_sqlite().await;
    let request = app.request(Method::POST, "/tool-calls").header("accept", "text/event-stream");
    send(request.json(&json!({"nmae": "echo"}))).await.problem(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn accept_decides_between_events_and_json_by_quality() {
    let app = App::on_sqlite().await;
    let (json_type, events) = ("application/json", "text/event-stream");
    for (accept, expected) in [
        ("application/json, text/event-stream;q=0", json_type),
        ("application/json, text/event-stream;q=0.1", json_type),
        ("text/event-stream;q=0.1, */*;q=0.2", json_type),
        ("*/*", json_type),
        ("application/json;q=0.1, text/event-stream;q=0.2", events),
        ("application/json, text/event-stream", events),
    ] {
        let request = app.request(Method::POST, "/tool-calls").header("accept", accept);
        let answer = send(request.json(&json!({"name": "echo"}))).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, expected), "{accept}");
    }
}
