//! Requests that are answered before their body is read: the connection stays usable, or the response announces its
//! end.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::raw::{connect, is_problem, to_the_end};
use crate::support::{App, Backend, Options, bounded};

const NEXT: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads one response by its `content-length` from a connection that stays open, and nothing after it.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(stream.read_u8().await.expect("the connection to stay open"));
        }
        let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or_else(|| panic!("no length: {head}")).parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        bytes.extend(body);
    };
    bounded("an answer", reading).await;
    String::from_utf8(bytes).unwrap()
}

fn head(method: &str, path: &str, headers: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

fn says_close(answer: &str) -> bool {
    answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
}

/// Returns the requests whose body is never read, with the status of their responses.
async fn refusals(app: &App) -> Vec<(&'static str, String, u16)> {
    let call = app.sent(json!({"name": "echo"})).await;
    vec![
        ("POST", format!("/tool-calls/{call}/cancel"), 202),
        ("POST", "/tools/echo/resume".into(), 200),
        ("POST", "/nowhere".into(), 404),
        ("PUT", "/tool-calls".into(), 405),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_survives_a_body_after_its_response() {
    let app = App::on_sqlite().await;
    let mut stream = connect(&app).await;
    // All requests share a connection, so each needs a usable connection after the previous one.
    for (method, path, status) in refusals(&app).await {
        stream.write_all(head(method, &path, "", 20_000).as_bytes()).await.unwrap();
        let response = answer(&mut stream).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")) && !says_close(&response), "{path}: {response}");
        stream.write_all(&[b' '; 20_000]).await.unwrap();
        stream.write_all(NEXT).await.unwrap();
        let next = answer(&mut stream).await;
        assert!(next.starts_with("HTTP/1.1 200 "), "{path}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_survives_a_body_with_its_head() {
    let app = App::on_sqlite().await;
    let mut stream = connect(&app).await;
    for (method, path, status) in refusals(&app).await {
        let request = [head(method, &path, "", 2).as_bytes(), b"{}", NEXT].concat();
        stream.write_all(&request).await.unwrap();
        let response = answer(&mut stream).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")) && !says_close(&response), "{path}: {response}");
        let next = answer(&mut stream).await;
        assert!(next.starts_with("HTTP/1.1 200 "), "{path}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_outlives_a_401_and_a_429() {
    let app = App::on_sqlite().await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let (limited, _) = app.with_key(&admin).key(json!({"scopes": ["call"], "rate": 1})).await;
    assert_eq!(app.with_key(&limited).post("/tool-calls", &json!({"name": "echo"})).await.status, 200);
    let limited = format!("authorization: Bearer {limited}\r\n");
    let mut stream = connect(&app).await;
    for (headers, status) in [("", 401), (limited.as_str(), 429)] {
        stream.write_all(head("POST", "/tool-calls", headers, 2).as_bytes()).await.unwrap();
        let response = answer(&mut stream).await;
        assert!(is_problem(&response, status) && !says_close(&response), "{response}");
        stream.write_all(b"{}").await.unwrap();
        stream.write_all(NEXT).await.unwrap();
        let next = answer(&mut stream).await;
        assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_to_a_large_or_unbounded_body_closes_the_connection() {
    let app = App::on_sqlite().await;
    let chunked = "POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for (head, status) in [
        (head("POST", "/nowhere", "", 3 << 20), 404),
        (head("POST", "/nowhere", "", 12 << 20), 413),
        (chunked.to_owned(), 404),
    ] {
        let mut stream = connect(&app).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let response = to_the_end(&mut stream).await;
        assert!(is_problem(&response, status) && says_close(&response), "{response}");
    }
    let mut broken = connect(&app).await;
    let chunk = "POST /tool-calls HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nx\r\n";
    broken.write_all(chunk.as_bytes()).await.unwrap();
    let response = to_the_end(&mut broken).await;
    assert!(is_problem(&response, 400) && says_close(&response), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_body_closes_the_connection_with_a_problem() {
    let options = Options { configure: Some(|config| config.server.body_timeout_ms = 50), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let mut stream = connect(&app).await;
    stream.write_all(head("POST", "/tool-calls", "", 2).as_bytes()).await.unwrap();
    let response = to_the_end(&mut stream).await;
    assert!(is_problem(&response, 408) && says_close(&response), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_expectation_is_answered_without_the_body() {
    let app = App::on_sqlite().await;
    let expects = "expect: 100-continue\r\n";
    let mut refused = connect(&app).await;
    refused.write_all(head("POST", "/nowhere", expects, 2).as_bytes()).await.unwrap();
    let response = to_the_end(&mut refused).await;
    assert!(is_problem(&response, 404) && says_close(&response) && !response.contains(" 100 "), "{response}");
    let body = json!({"name": "echo"}).to_string();
    let mut taken = connect(&app).await;
    taken.write_all(head("POST", "/tool-calls", expects, body.len()).as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    bounded("the interim answer", taken.read_exact(&mut interim)).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    taken.write_all(body.as_bytes()).await.unwrap();
    let response = answer(&mut taken).await;
    assert!(response.starts_with("HTTP/1.1 200 ") && !says_close(&response), "{response}");
}
