//! Servers that fail, and timeouts that stop them.

use serde_json::{Value, json};

use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

async fn called(answer: Answer, limits: Value) -> (Value, HttpTool) {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(answer).await);
    app.http_tool("t", &server).await;
    (app.call_with(json!({"name": "t", "limits": limits})).await, server)
}

/// Checks for a failure of the tool with a short text, and returns the error.
fn broke(call: &Value) -> &Value {
    let output = failed(call, "TOOL_EXECUTION_ERROR");
    assert!(output.starts_with("Error executing tool \"t\": ") && output.len() < 2000, "{output}");
    &call["error"]
}

#[tokio::test(flavor = "multi_thread")]
async fn response_4xx_is_not_retryable() {
    for status in [400, 401, 404, 422] {
        let (call, server) = called(Answer::status(status, "text/plain", "no such city"), json!({})).await;
        assert_eq!(broke(&call)["retryable"], false, "{status}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_5xx_is_retryable_but_not_retried_by_default() {
    for status in [500, 502, 503] {
        let (call, server) = called(Answer::status(status, "text/plain", "sorry"), json!({})).await;
        assert_eq!(broke(&call)["retryable"], true, "{status}");
        assert_eq!((&call["attempts"], server.requests().len()), (&json!(1), 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_429_has_its_delay() {
    let busy = Answer::status(429, "text/plain", "busy").with_header("retry-after", "7");
    let (call, _server) = called(busy, json!({})).await;
    let error = broke(&call);
    assert_eq!((&error["retryable"], &error["retry_after_ms"]), (&json!(true), &json!(7000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_server_is_retryable() {
    let app = App::with_egress(Backend::Sqlite).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    app.register(crate::support::app::http_tool("t", json!({"url": url}))).await;
    assert_eq!(broke(&app.call("t", json!({})).await)["retryable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_closed_without_a_response_is_retryable() {
    assert_eq!(broke(&called(Answer::CloseEarly, json!({})).await.0)["retryable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_response_is_an_error() {
    broke(&called(Answer::CutOff, json!({})).await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_utf_8_is_an_error_in_text_and_corrected_in_json() {
    broke(&called(Answer::body("text/plain; charset=utf-8", [b'a', 0xff, 0xfe, b'b']), json!({})).await.0);
    broke(&called(Answer::body("application/json", b"{\"a\":\xff}".as_slice()), json!({})).await.0);
    let (call, _) = called(Answer::body("application/json", b"{\"a\":\"\xff\"}".as_slice()), json!({})).await;
    assert_eq!(succeeded(&call), "{\"a\":\"\u{fffd}\"}");
    assert!(call["details"]["note"].as_str().unwrap().contains("not valid UTF-8"), "{call}");
}

on_both_databases!(
    async fn silent_server_times_out_and_its_connection_is_closed(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = HttpTool::answering(Answer::Never).await;
        app.http_tool("t", &server).await;
        let call = app.call_with(json!({"name": "t", "limits": {"timeout_ms": 100}})).await;
        let output = failed(&call, "TOOL_TIMEOUT");
        assert!(output.starts_with("Error: Tool execution timeout after 100ms"), "{output}");
        server.closed().await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stalled_response_times_out_and_its_connection_is_closed() {
    let (call, server) = called(Answer::Stall, json!({"timeout_ms": 100})).await;
    failed(&call, "TOOL_TIMEOUT");
    server.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_server_affects_no_other_tool() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (silent, well) = (HttpTool::answering(Answer::Never).await, HttpTool::answering(Answer::text("ok")).await);
    app.http_tool("silent", &silent).await;
    app.http_tool("well", &well).await;
    let calls = json!([{"name": "silent", "limits": {"timeout_ms": 200}}, {"name": "well"}]);
    let results = app.batch(json!({"calls": calls, "mode": "parallel"})).await;
    failed(&results[0], "TOOL_TIMEOUT");
    assert_eq!(succeeded(&results[1]), "ok");
}
