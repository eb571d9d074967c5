//! Tools that answer with an event stream: from the tool's server to the subscribers of the call.

use serde_json::{Value, json};

use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::{Answer, App, Backend, Event, HttpTool};

/// Returns an event stream that is sent in these chunks.
fn stream(pieces: &[String]) -> Answer {
    let chunks = pieces.iter().map(|piece| piece.clone().into_bytes()).collect();
    Answer::Chunked { media_type: "text/event-stream".into(), chunks }
}

/// Renders one event of the tool's response.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Returns a call whose tool answers with these chunks, and its events.
async fn watched(backend: Backend, pieces: &[String]) -> (Value, Vec<Event>) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(stream(pieces)).await);
    app.http_tool("t", &server).await;
    let call = app.call("t", json!({})).await;
    let path = format!("/tool-calls/{}/events", call["id"].as_str().unwrap());
    (call, app.events(&path).await.rest().await)
}

on_both_databases!(
    async fn stream_reports_reach_watchers_and_its_result_the_model(backend: Backend) {
        let content = json!([{"type": "text", "text": HARD_TEXT}]);
        let pieces = [
            event(
                "progress",
                &json!({"tip": "one", "params": {"p": {"x": 1}}, "progress": {"current": 1, "total": 2}}),
            ),
            event("progress", &json!({"content": content, "details": {"step": 1}})),
            event("progress", &json!({"tip": "two", "params": {"p": {"y": 2}}, "metadata": {"rows": 3}})),
            event("result", &json!({"output": HARD_TEXT, "structured": {"n": 1}})),
        ];
        let (call, events) = watched(backend, &pieces).await;
        assert_eq!(succeeded(&call), HARD_TEXT);
        assert_eq!((&call["structured"], &call["metadata"]), (&json!({"n": 1}), &json!({"rows": 3})));
        let shown: Vec<&Event> = events.iter().filter(|event| event.event == "progress").collect();
        assert_eq!(shown.len(), 1);
        assert_eq!((&shown[0].data["content"], &shown[0].data["details"]), (&content, &json!({"step": 1})));
        let last = events.iter().rfind(|event| event.event == "status").unwrap();
        assert_eq!((&last.data["tip"], &last.data["params"]), (&json!("two"), &json!({"p": {"x": 1, "y": 2}})));
        assert_eq!((&last.data["progress"]["current"], &last.data["progress"]["total"]), (&json!(1.0), &json!(2.0)));
        assert!(!succeeded(&call).contains("step"));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stream_can_be_split_anywhere() {
    let whole =
        format!(": hi\r\n\r\n{}{}", event("progress", &json!("é😀")), event("result", &json!({"text": "北京"})));
    let pieces: Vec<Vec<u8>> = whole.replace('\n', "\r\n").bytes().map(|byte| vec![byte]).collect();
    let answer = Answer::Chunked { media_type: "text/event-stream".into(), chunks: pieces };
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(answer).await);
    app.http_tool("t", &server).await;
    assert_eq!(app.call("t", json!({})).await["structured"], json!({"text": "北京"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_without_a_result_or_with_an_error_is_a_failure() {
    for (pieces, message) in [
        (vec![event("progress", &json!("x"))], "the event stream ended without a `result` event"),
        (vec![event("error", &json!({"message": "no ink"}))], "no ink"),
    ] {
        let (call, _) = watched(Backend::Sqlite, &pieces).await;
        let output = failed(&call, "TOOL_EXECUTION_ERROR");
        assert_eq!(output, format!("Error executing tool \"t\": {message}"));
        assert_eq!(call["error"]["retryable"], false);
    }
}
