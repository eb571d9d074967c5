//! The content, signature and number of deliveries.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use toolpost::app::kept_signing_secret;

use super::{Service, shown};
use crate::support::{Answer, Backend, HttpTool, ReceivedRequest};

/// Computes an HMAC-SHA256 by its definition (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64, "longer keys would have to be hashed");
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let hash = |pad: u8, message: &[u8]| Sha256::digest([&block.map(|byte| byte ^ pad)[..], message].concat());
    hash(0x5c, &hash(0x36, message)).to_vec()
}

/// Returns the expected `webhook-signature` of a request (Standard Webhooks).
fn signature(secret: &str, request: &ReceivedRequest) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = format!("{}.{}.{}", request.header("webhook-id"), request.header("webhook-timestamp"), request.body);
    format!("v1,{}", STANDARD.encode(hmac(&key, signed.as_bytes())))
}

on_both_databases!(
    async fn full_call_is_posted_and_signed(backend: Backend) {
        let service = Service::start(backend).await;
        let receiver = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
        let call = service.call(&receiver.url("/ends?of=calls")).await;
        let callback = service.delivered(&call).await;

        let request = receiver.request();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/ends?of=calls"));
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.json(), shown(&call));
        assert_eq!(request.json()["status"], "SUCCESS");
        let secret = kept_signing_secret(&service.app.store).await.unwrap();
        assert_eq!(request.header("webhook-signature"), signature(&secret, &request));
        assert_eq!(request.header("webhook-timestamp"), "1767225600");
        assert_eq!(request.header("webhook-id"), callback["event_id"].as_str().unwrap());

        assert_eq!(callback["url"], receiver.url("/ends?of=calls"));
        assert_eq!((&callback["attempts"], &callback["last_status"]), (&1.into(), &204.into()));
        assert_eq!(callback["delivered_at"], "2026-01-01T00:00:00.123Z");
        assert!(callback.get("next_attempt_at").is_none() && callback.get("last_error").is_none());
        service.app.stop().await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_failed_call_is_delivered() {
    let service = Service::start(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::text("thanks")).await;
    let call = (*service.ended(&receiver.url("/")).await).clone();
    // A copy of the call that failed before its tool was started.
    let (id, status) = (service.app.engine.new_id(), toolpost::domain::Status::Wait);
    let mut call =
        toolpost::domain::Call::from(toolpost::domain::call::CallRecord { id, status, ..call.into_record() });
    call.settle(toolpost::domain::Failure::truncated("echo").into(), service.clock.now()).unwrap();
    let news = toolpost::store::journal::Transitions { accepted: true, started: false, settled: true };
    let change = toolpost::store::journal::Change::new(call.clone().into(), news);
    service.app.journal.write(change).await.unwrap();
    let row = toolpost::store::callbacks::CallbackRow::of(&call, service.app.engine.new_id()).unwrap();
    service.app.store.insert_callbacks(&[row]).await.unwrap();
    service.app.callback_wakeup.notify_one();
    service.delivered(&call).await;
    let callbacks: Vec<Value> = receiver.requests().iter().map(ReceivedRequest::json).collect();
    let delivery = callbacks.iter().find(|callback| callback["id"] == call.id.to_string()).unwrap();
    assert_eq!((&delivery["status"], &delivery["error"]["code"]), (&"ERROR".into(), &"ARGUMENTS_TRUNCATED".into()));
    service.app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn response_body_of_any_length_is_ignored() {
    let service = Service::start(Backend::Sqlite).await;
    let receiver = HttpTool::start("127.0.0.1", |request: &ReceivedRequest| match request.target.as_str() {
        "/large" => Answer::Stream(64 * 1024 * 1024),
        "/cut" => Answer::CutOff,
        _ => Answer::Stall,
    })
    .await;
    for path in ["/large", "/cut", "/stalled"] {
        let call = service.call(&receiver.url(path)).await;
        assert_eq!(service.delivered(&call).await["attempts"], 1, "{path}");
    }
    service.app.stop().await;
}

on_both_databases!(
    async fn many_ends_are_delivered_once(backend: Backend) {
        let service = Service::start(backend).await;
        // On Postgres, a second node competes for the same callbacks. SQLite allows one node only.
        let other = if backend == Backend::Postgres { Some(service.another().await) } else { None };
        let receiver = HttpTool::answering(Answer::text("ok")).await;
        let mut calls = Vec::new();
        for n in 0..150 {
            calls.push(service.call(&receiver.url(&format!("/{}", n % 7))).await);
            if let Some(other) = &other {
                other.app.callback_wakeup.notify_one();
            }
        }
        for call in &calls {
            assert_eq!(service.delivered(call).await["attempts"], 1);
        }
        let mut received: Vec<String> =
            receiver.requests().iter().map(|request| request.json()["id"].as_str().unwrap().to_owned()).collect();
        let mut expected: Vec<String> = calls.iter().map(|call| call.id.to_string()).collect();
        received.sort_unstable();
        expected.sort_unstable();
        assert_eq!(received, expected);
        service.app.stop().await;
        if let Some(other) = other {
            other.app.stop().await;
        }
    }
);
