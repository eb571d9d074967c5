//! Signatures of requests (Standard Webhooks), verified independently.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::super::test_server::ReceivedRequest;
use super::*;

const ID: &str = "00000000-0000-0000-0000-000000000007";

/// Verifies the signature with the service's key, as a receiver would.
fn verify(request: &ReceivedRequest) {
    let header = |name: &str| request.text_header(name).unwrap_or_else(|| panic!("no {name} in {request:?}"));
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    assert_eq!((id.as_str(), timestamp.as_str()), (ID, "1767225600"));
    let mut mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(&request.body);
    assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())));
}

#[tokio::test]
async fn every_form_of_request_is_signed_with_its_body() {
    for (form, has_body) in [
        (json!({}), true),
        (json!({"method": "PATCH", "body": {"a": "{a}"}}), true),
        (json!({"body": {"a": "{a}"}, "headers": {"content-type": "application/x-www-form-urlencoded"}}), true),
        (json!({"body": "{missing}"}), false),
        (json!({"method": "GET"}), false),
        (json!({"method": "DELETE", "query": {"a": "{a}"}}), false),
    ] {
        let mut server = TestServer::answering(response("200 OK", "")).await;
        let mut spec = form.clone();
        spec["url"] = server.url("/x").into();
        assert_eq!(run(spec, json!({"a": "é\u{0}"})).await, Ok(ToolOutput::Nothing));
        let request = server.received.recv().await.unwrap();
        assert_eq!(!request.body.is_empty(), has_body, "{form}");
        verify(&request);
        assert_eq!(request.text_header("idempotency-key").as_deref(), Some(ID), "{form}");
    }
}

#[tokio::test]
async fn another_attempt_has_the_same_id() {
    let mut server = TestServer::answering(response("200 OK", "")).await;
    let executor = executor(json!({"url": server.url("/")}), client(&["127.0.0.1"]));
    for attempt in [1, 2] {
        let invocation = Invocation { attempt, ..invocation(json!({})) };
        assert_eq!(executor.execute(invocation).await, Ok(ToolOutput::Nothing));
        let request = server.received.recv().await.unwrap();
        verify(&request);
        assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap()["attempt"], attempt);
    }
}

#[tokio::test]
async fn redirect_within_the_origin_is_signed_again() {
    for status in [301, 302, 303, 307, 308] {
        let mut server = TestServer::start(move |request| match request.target.as_str() {
            "/start" => response(&format!("{status} R\r\nlocation: /end"), ""),
            _ => response("200 OK", ""),
        })
        .await;
        assert_eq!(run(json!({"url": server.url("/start")}), json!({})).await, Ok(ToolOutput::Nothing));
        let (first, second) = (server.received.recv().await.unwrap(), server.received.recv().await.unwrap());
        verify(&first);
        verify(&second);
        assert_eq!(second.body.is_empty(), status < 307, "{status}");
    }
}

#[tokio::test]
async fn another_origin_and_its_redirects_get_no_signature() {
    let mut home = TestServer::answering(response("200 OK", "home")).await;
    let back = home.url("/back");
    let mut other = TestServer::start(move |_| response(&format!("303 R\r\nlocation: {back}"), "")).await;
    let away = other.url("/away");
    let mut start = TestServer::start(move |_| response(&format!("303 R\r\nlocation: {away}"), "")).await;
    assert_eq!(run(json!({"url": start.url("/")}), json!({})).await, Ok(ToolOutput::Text("home".into())));
    verify(&start.received.recv().await.unwrap());
    for request in [other.received.recv().await.unwrap(), home.received.recv().await.unwrap()] {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key"] {
            assert_eq!(request.header(name), None, "{name}");
        }
    }
}
