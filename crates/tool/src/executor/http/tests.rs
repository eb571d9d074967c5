//! Tests of the HTTP executor with real sockets.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::test_server::{TestServer, response};
use super::*;
use crate::executor::signing_key::SigningKey;
use crate::executor::{ResultSlot, Secrets, emitter};
use toolpost_core::domain::{Clock, Time};

mod answers;
mod broken;
mod later;
mod redirects;
mod round_trip;
mod signing;
mod streams;

pub(super) fn key() -> SigningKey {
    SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap()
}

/// Creates a client of a service at `http://toolpost.example`.
pub(super) fn client(allow: &[&str]) -> HttpClient {
    let client = client_without_service(allow);
    client.reporting.set_base("http://toolpost.example");
    client
}

/// Creates a client without a base URL, so that tools cannot report.
pub(super) fn client_without_service(allow: &[&str]) -> HttpClient {
    let secrets = Secrets::new(|name| (name == "KEY").then(|| "s3cret-value".to_owned()));
    let clock = Clock::manual(Time::parse("2026-01-01T00:00:00Z").unwrap());
    HttpClient::new(Egress::new(allow).unwrap(), secrets, clock, Reporting::new(key())).unwrap()
}

pub(super) fn invocation(arguments: Value) -> Invocation {
    Invocation {
        id: Uuid::from_u128(7),
        tenant: toolpost_core::domain::Tenant::default(),
        allowed: None,
        call_id: "call_1".into(),
        name: "t".into(),
        naming: toolpost_core::domain::Naming::default(),
        arguments: Arc::new(arguments),
        context: Arc::default(),
        agent: None,
        redaction: None,
        session: None,
        session_snapshot: None,
        attempt: 1,
        idle_timeout_ms: None,
        elapsed_ms: 0,
        awaits_external: false,
        result_slot: ResultSlot::default(),
        output: toolpost_core::domain::limits::Bounds::default(),
        timeout_ms: 30_000,
        traceparent: None,
        emitter: emitter::channel().0,
        cancel: CancellationToken::new(),
    }
}

pub(super) fn executor(spec: Value, client: HttpClient) -> HttpExecutor {
    HttpExecutor::new(&serde_json::from_value(spec).unwrap(), &json!({}), client).unwrap()
}

/// Runs a tool that may connect to this machine.
pub(super) async fn run(spec: Value, arguments: Value) -> Result<ToolOutput, Failure> {
    executor(spec, client(&["127.0.0.1"])).execute(invocation(arguments)).await
}

/// Returns the failure of a `GET` with this raw response.
pub(super) async fn failure_of(answer: impl Into<Vec<u8>>) -> Failure {
    let server = TestServer::answering(answer).await;
    run(json!({"url": server.url("/x"), "method": "GET"}), json!({})).await.unwrap_err()
}

#[tokio::test]
async fn call_is_posted_and_its_response_read() {
    let mut server = TestServer::answering(response("200 OK\r\ncontent-type: application/json", r#"{"sum":3}"#)).await;
    let answer = run(json!({"url": server.url("/sum")}), json!({"a": 1, "b": "é\u{0}"})).await;
    assert_eq!(answer, Ok(ToolOutput::Json(json!({"sum": 3}))));
    let request = server.received.recv().await.unwrap();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/sum"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["arguments"], json!({"a": 1, "b": "é\u{0}"}));
    for (name, value) in [
        ("content-type", "application/json"),
        ("accept-encoding", "identity"),
        ("idempotency-key", "00000000-0000-0000-0000-000000000007"),
        ("user-agent", concat!("toolpost/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(request.text_header(name).as_deref(), Some(value), "{name}");
    }
}

#[tokio::test]
async fn repeated_credential_is_redacted() {
    let server = TestServer::answering(response("401 Unauthorized", "bad token s3cret-value!")).await;
    let spec = json!({"url": server.url("/"), "auth": {"type": "bearer", "token": {"secret": "KEY"}}});
    let failure = run(spec, json!({})).await.unwrap_err();
    assert_eq!(failure.message, "HTTP 401 Unauthorized: bad token [redacted]!");
    assert!(!format!("{failure:?}").contains("s3cret"));

    let server = TestServer::start(|request| response("400 Bad Request", &request.body)).await;
    let details = run(json!({"url": server.url("/")}), json!({})).await.unwrap_err().details.unwrap();
    assert!(details["body"].as_str().unwrap().contains("\"token\":\"[redacted]\""), "{details}");
}

#[tokio::test]
async fn private_addresses_are_denied_as_names_and_literals() {
    let mut server = TestServer::answering(response("200 OK", "secret")).await;
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
        let spec = json!({"url": format!("http://{host}:{}/", server.port)});
        let failure = executor(spec, client(&["10.0.0.0/8"])).execute(invocation(json!({}))).await.unwrap_err();
        assert!(failure.message.contains("is not allowed (loopback address; "), "{host}: {}", failure.message);
        assert!(failure.message.contains("--egress-allow"), "{host}");
        assert!(!failure.retryable && failure.not_sent, "{host}");
        assert_eq!(failure.details.unwrap()["request_sent"], false);
    }
    let by_name = json!({"url": format!("http://localhost:{}/", server.port)});
    let allowed = executor(by_name, client(&["localhost"])).execute(invocation(json!({}))).await;
    // `localhost` may resolve to ::1 first, where no server listens; the client then tries 127.0.0.1.
    assert_eq!(allowed, Ok(ToolOutput::Text("secret".into())));
    assert!(server.received.recv().await.is_some());
    assert!(server.received.try_recv().is_err(), "only the allowed request arrived");
}
