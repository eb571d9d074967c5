//! Compressed responses: lists and documents, as the client accepts it, and nothing else.

use std::io::Read;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::client::send;
use crate::support::raw::{connect, to_the_end};
use crate::support::{App, Response};

/// Returns the response to a client that accepts these codings.
async fn fetched(app: &App, path: &str, accepted: &str) -> Response {
    send(app.request(Method::GET, path).header("accept-encoding", accepted)).await
}

/// Decodes a body as its `Content-Encoding` states.
fn decoded(response: &Response) -> Vec<u8> {
    let (mut bytes, body) = (Vec::new(), response.body.as_slice());
    match response.header("content-encoding") {
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut bytes).unwrap(),
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut bytes).unwrap(),
        other => panic!("not compressed: {other:?}"),
    };
    bytes
}

fn is_plain(response: &Response) -> bool {
    response.header("content-encoding").is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_compressed_as_the_client_accepts() {
    let app = App::on_sqlite().await;
    for path in ["/tools", "/tools?format=openai", "/openapi.json", "/console"] {
        let plain = app.get(path).await;
        assert!(is_plain(&plain), "{path}");
        for (accepted, expected) in [
            ("gzip", "gzip"),
            ("br", "br"),
            ("gzip, deflate, br, zstd", "br"),
            ("br;q=0.5, gzip;q=0.9", "gzip"),
            ("br;q=0, gzip", "gzip"),
        ] {
            let response = fetched(&app, path, accepted).await;
            assert_eq!((response.status, response.header("content-encoding")), (200, expected), "{path} {accepted}");
            assert!(decoded(&response) == plain.body && response.body.len() < plain.body.len(), "{path} {accepted}");
            assert_eq!(response.header("content-type"), plain.header("content-type"), "{path}");
            assert!(response.header("vary").contains("accept-encoding"), "{path}: {}", response.header("vary"));
            assert_eq!(response.header("x-content-type-options"), "nosniff", "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_list_has_a_weak_tag_that_matches() {
    let app = App::on_sqlite().await;
    let plain = app.get("/tools").await;
    let compressed = fetched(&app, "/tools", "br").await;
    assert_eq!(compressed.etag(), format!("W/{}", plain.etag()));
    assert_eq!(compressed.header("cache-control"), plain.header("cache-control"));
    for accepted in ["br", "identity"] {
        for tag in [plain.etag(), compressed.etag()] {
            let request = app.request(Method::GET, "/tools").header("if-none-match", tag);
            let again = send(request.header("accept-encoding", accepted)).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{accepted} {tag}");
        }
    }
    // A single tool keeps its strong tag, which a change states in `If-Match`.
    let tool = fetched(&app, "/tools/echo", "br").await;
    assert!(is_plain(&tool) && !tool.etag().starts_with("W/"), "{}", tool.etag());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_messages_of_mcp_are_not_compressed() {
    let app = App::on_sqlite().await;
    let text = "x".repeat(4096);
    let accepting = |method: Method, path: &str| app.request(method, path).header("accept-encoding", "br, gzip");
    let body = json!({"name": "echo", "arguments": {"text": text}});
    let call = send(accepting(Method::POST, "/tool-calls").json(&body)).await;
    assert!(is_plain(&call) && call.body.len() > 4096);
    let id = call.json["id"].as_str().unwrap();
    for path in ["/tool-calls".to_owned(), format!("/tool-calls/{id}"), format!("/tool-calls/{id}/output")] {
        let response = send(accepting(Method::GET, &path)).await;
        assert!(response.status == 200 && is_plain(&response) && response.body.len() > 2000, "{path}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = send(accepting(Method::POST, "/mcp").header("accept", "application/json").json(&list)).await;
    assert!(list.status == 200 && is_plain(&list) && list.body.len() > 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_and_short_responses_are_not_compressed() {
    let app = App::on_sqlite().await;
    for path in ["/events", "/approvals/events"] {
        let request = app.request(Method::GET, path).header("accept-encoding", "br, gzip");
        let stream = request.header("accept", "text/event-stream").send().await.unwrap();
        assert!(stream.status() == 200 && stream.headers().get("content-encoding").is_none(), "{path}");
    }
    for path in ["/healthz", "/sessions", "/keys", "/nowhere"] {
        let response = fetched(&app, path, "br, gzip").await;
        assert!(is_plain(&response) && response.body.len() < 1024, "{path}: {}", response.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_another_site_gets_no_compressed_response() {
    let app = App::on_sqlite().await;
    for (site, expected) in [("cross-site", ""), ("same-site", ""), ("same-origin", "br"), ("none", "br")] {
        let request = app.request(Method::GET, "/tools").header("accept-encoding", "br").header("sec-fetch-site", site);
        assert_eq!(send(request).await.header("content-encoding"), expected, "{site}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_sent_as_it_is_if_no_coding_is_accepted() {
    let app = App::on_sqlite().await;
    let plain: Value = app.get("/tools").await.ok();
    for accepted in ["", "identity", "zstd, deflate", "gzip;q=0, br;q=0", "identity;q=0", "*;q=0"] {
        let response = fetched(&app, "/tools", accepted).await;
        assert!(is_plain(&response), "{accepted}");
        assert_eq!(response.ok(), plain, "{accepted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_client_gets_the_complete_compressed_response() {
    let app = App::on_sqlite().await;
    let mut stream = connect(&app).await;
    let head = "GET /openapi.json HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let response = to_the_end(&mut stream).await;
    assert!(response.to_ascii_lowercase().contains("content-encoding: gzip\r\n"), "{:.400}", response);
    assert!(response.ends_with("\r\n0\r\n\r\n"), "the body is truncated");
}
