//! Responses with numbers that fit neither a 64-bit integer nor a double.

use serde_json::{Value, json};

use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool};

/// Checks that a call has kept a body as text and reports that.
fn assert_kept(call: &Value, body: &str) {
    assert_eq!(succeeded(call), body);
    assert_eq!(call["structured"], Value::Null);
    let note = call["details"]["note"].as_str().unwrap();
    assert!(note.contains("beyond 64 bits") && note.contains("kept as text"), "{note}");
}

on_both_databases!(
    async fn result_with_an_integer_beyond_64_bits_is_kept_as_text(backend: Backend) {
        let body = "{\"id\": 123456789012345678901234567890,  \"ok\": true}";
        let server = HttpTool::answering(Answer::body("application/json", body)).await;
        let app = App::with_egress(backend).await;
        app.http_tool("t", &server).await;
        let call = app.call("t", json!({})).await;
        assert_kept(&call, body);
        assert_eq!((server.requests().len(), &call["attempts"]), (1, &json!(1)));
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn streamed_result_with_an_integer_beyond_64_bits_is_kept_as_text() {
    let body = "[123456789012345678901234567890]";
    let stream = format!("event: result\ndata: {body}\n\n");
    let server = HttpTool::answering(Answer::body("text/event-stream", stream)).await;
    let app = App::with_egress(Backend::Sqlite).await;
    app.http_tool("t", &server).await;
    assert_kept(&app.call("t", json!({})).await, body);
}
