//! Complete responses.

use super::*;

async fn answer_of(head: &str, body: &[u8]) -> Result<ToolOutput, String> {
    let server = TestServer::answering(response(head, body)).await;
    run(json!({"url": server.url("/x"), "method": "GET"}), json!({})).await.map_err(|failure| failure.message)
}

#[tokio::test]
async fn response_2xx_is_read_by_its_type() {
    assert_eq!(answer_of("200 OK\r\ncontent-type: text/plain", b"hi").await, Ok(ToolOutput::Text("hi".into())));
    assert_eq!(
        answer_of("201 Created\r\ncontent-type: application/json", b"null").await,
        Ok(ToolOutput::Json(Value::Null))
    );
    assert_eq!(answer_of("200 OK", b"[1]").await, Ok(ToolOutput::Json(json!([1]))));
    assert_eq!(answer_of("200 OK\r\ncontent-type: application/json", b"").await, Ok(ToolOutput::Nothing));
    assert_eq!(
        answer_of("200 OK\r\ncontent-type: image/png", b"\x89PNG").await,
        Ok(ToolOutput::Image { bytes: b"\x89PNG".to_vec(), mime_type: "image/png".into() })
    );
    let none = TestServer::answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
    assert_eq!(run(json!({"url": none.url("/")}), json!({})).await, Ok(ToolOutput::Nothing));
}

#[tokio::test]
async fn large_response_is_read_completely() {
    let body = format!("[\"{}\"]", "x".repeat(MAX_ANSWER_BYTES - 4));
    let Ok(ToolOutput::Json(value)) = answer_of("200 OK\r\ncontent-type: application/json", body.as_bytes()).await
    else {
        panic!("a response of exactly the maximum size is read");
    };
    assert_eq!(value[0].as_str().map(str::len), Some(MAX_ANSWER_BYTES - 4));
}

#[tokio::test]
async fn unreadable_responses_have_clear_messages() {
    for (head, body, message) in [
        ("200 OK\r\ncontent-type: application/json", "{", "the response is declared as JSON but is not valid JSON: "),
        ("200 OK\r\ncontent-type: application/pdf", "%PDF", "the response is 4 bytes of application/pdf, which"),
        ("200 OK\r\ncontent-encoding: gzip", "x", "the response is compressed (gzip)"),
        (
            "200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip",
            "x",
            "the response is compressed (gzip)",
        ),
    ] {
        let error = answer_of(head, body.as_bytes()).await.unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[tokio::test]
async fn error_status_has_the_servers_message() {
    let failure = failure_of(response("404 Not Here", "{\"detail\":\"no such city\"}")).await;
    assert_eq!(failure.text, "Error executing tool \"t\": HTTP 404 Not Found: no such city");
    assert!(!failure.retryable);
    let details = failure.details.unwrap();
    assert_eq!((&details["status"], &details["request_sent"]), (&json!(404), &json!(true)));
    assert_eq!(details["body"], "{\"detail\":\"no such city\"}");
    assert!(details["url"].as_str().unwrap().ends_with("/x"));
}

#[tokio::test]
async fn only_429_and_5xx_are_retryable_with_a_delay() {
    for (head, retryable, after) in [
        ("429 Too Many Requests\r\nretry-after: 7", true, Some(7000)),
        ("503 Busy\r\nretry-after: Thu, 01 Jan 2026 00:00:05 GMT", true, Some(5000)),
        ("429 Slow\r\nretry-after: Wed, 31 Dec 2025 23:59:00 GMT", true, Some(0)),
        ("500 Oops\r\nretry-after: 1", true, Some(1000)),
        ("500 Oops\r\nretry-after: soon", true, None),
        ("599 Own", true, None),
        ("400 Bad\r\nretry-after: 7", false, None),
        ("401 Who", false, None),
        ("404 Where", false, None),
        ("408 Slow", false, None),
        ("422 What", false, None),
    ] {
        let failure = failure_of(response(head, "")).await;
        assert_eq!((failure.retryable, failure.retry_after_ms), (retryable, after), "{head}");
        assert!(!failure.not_sent, "{head}");
    }
}
