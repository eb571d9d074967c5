//! Arbitrary requests to a running service: it answers each one, never with a 500, and keeps running.

use reqwest::Method;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use toolpost::config::Config;

use super::driver::Target;
use crate::support::client::send;
use crate::support::raw::exchange;
use crate::support::{App, Backend, Options, Response};

/// Starts a service with this configuration.
async fn app(configure: fn(&mut Config)) -> App {
    App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await
}

/// Sets short timeouts, and this timeout for idle connections.
fn hurry(config: &mut Config, idle_timeout_ms: u64) {
    config.server.body_timeout_ms = 300;
    config.server.header_timeout_ms = 300;
    config.server.idle_timeout_ms = idle_timeout_ms;
    config.limits.timeout_ms = 300;
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(work))
}

/// Checks that a response has a valid status and form.
fn is_sound(answer: &Response) -> Result<(), String> {
    let (status, kind) = (answer.status, answer.header("content-type"));
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&answer.body).is_ok();
    match status {
        200..300 if is_json || kind.starts_with("text/event-stream") => Ok(()),
        400..500 | 503 if is_json && kind == "application/problem+json" => Ok(()),
        _ => Err(format!("{status} {kind}: {}", answer.text())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_bodies_are_answered_whatever_they_are() {
    // Connections are reused, even after a pause.
    let app = app(|config| hurry(config, 0)).await;
    let take = |input: &[u8]| is_sound(&wait(app.post_raw("/tool-calls", input.to_vec())));
    let words = &[
        "\"name\":\"echo\"",
        "\"arguments\":",
        "\"calls\":[",
        "\"tool_calls\":[",
        "\"function_call\"",
        "\"tool_use\"",
        "\"functionCall\":{",
        "\"wait\":\"accepted\"",
        "\"wait\":1",
        "\"session\":\"s\"",
        "\"limits\":{\"timeout_ms\":1}",
        "\"partial\":true",
        "\"format\":\"gemini\"",
        "\"stop_reason\":\"max_tokens\"",
        "\"dedupe\":\"call_id\"",
        "\\u0000",
        "\"mode\":\"serial\"",
        "null",
        "[[[[",
        "1e999",
        "99999999999999999999",
        "\\ud83d",
    ];
    let beside = &[
        "tests/fixtures/messages/anthropic.json",
        "tests/fixtures/messages/gemini.json",
        "tests/fixtures/messages/openai.json",
        "tests/fixtures/messages/openai-responses.json",
    ];
    Target { name: "bodies", beside, words, inputs: 120, take }.run();
    assert_eq!(app.call("echo", json!({})).await["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_answered_whatever_they_are() {
    let app = app(|config| hurry(config, 500)).await;
    let body = br#"{"name":"echo","arguments":{}}"#;
    let take = |input: &[u8]| {
        let mut head = b"POST /tool-calls HTTP/1.1\r\nhost: x\r\nconnection: close\r\n".to_vec();
        head.extend_from_slice(input.trim_ascii_end());
        head.extend_from_slice(format!("\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
        head.extend_from_slice(body);
        let answer = wait(exchange(&app, "", &head));
        // An incomplete request may get no response.
        let is_good = answer.is_empty() || answer.starts_with("HTTP/1.1 ") && !answer.starts_with("HTTP/1.1 500");
        if is_good { Ok(()) } else { Err(answer) }
    };
    let words = &[
        "prefer: wait=1",
        "prefer: respond-async",
        "range: bytes=0-1",
        "if-match: \"x\"",
        "idempotency-key: k",
        "accept: */*",
        "content-type: application/json",
        "transfer-encoding: chunked",
        "cache-control: no-store",
        "last-event-id: 7",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-request-id: ",
        "\r\n",
        ": ",
        "\t",
        "\u{7f}",
        "origin: null",
        "sec-fetch-site: cross-site",
        "expect: 100-continue",
        "authorization: Bearer ",
    ];
    Target { name: "headers", beside: &[], words, inputs: 80, take }.run();
    assert_eq!(app.call("echo", json!({})).await["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_accepted_and_filled_or_rejected() {
    // Connections are reused, even after a pause.
    let app = app(|config| hurry(config, 0)).await;
    // The input is four lines: `URL`, a header, a body and the argument.
    let take = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let mut lines = text.splitn(4, '\n');
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let (url, header, body, value) = (next(), next(), next(), next());
        let definition = json!({
            "name": "fuzzed", "description": "x",
            "input_schema": {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}},
            "executor": {"type": "http", "url": url, "method": "PUT", "headers": {"x-a": header}, "body": body},
        });
        let made = wait(app.put("/tools/fuzzed", &definition));
        is_sound(&made)?;
        if made.status >= 300 {
            return Ok(());
        }
        is_sound(&wait(app.post("/tool-calls", &json!({"name": "fuzzed", "arguments": {"a": value, "b": value}}))))?;
        let shown = app.request(Method::GET, "/tools/fuzzed");
        is_sound(&wait(send(shown)))
    };
    let words = &[
        "{a}",
        "{b}",
        "{",
        "}",
        "{{",
        "}}",
        "{a.b}",
        "http://127.0.0.1:1/",
        "https://",
        "//",
        "@",
        "?q={a}",
        "#{b}",
        "%2f",
        "..",
        "[::1]",
        "\\",
        "{\"a\":{a}}",
        "user:{a}@",
        "\u{202e}",
        "localhost",
    ];
    Target { name: "templates", beside: &[], words, inputs: 60, take }.run();
}
