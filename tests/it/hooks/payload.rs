//! The requests to webhooks, and their signatures.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use toolpost::domain::Time;

use super::silent;
use crate::support::fixture::same_json;
use crate::support::{Answer, App, Backend, HttpTool, Options, ReceivedRequest};

const SERVICE: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OWN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

async fn app() -> App {
    let options = Options {
        egress_allow: vec!["127.0.0.1".into()],
        signing_secret: Some(format!("whsec_{SERVICE}")),
        frozen_at: Time::parse("2026-03-01T00:00:00.900Z"),
        ..Options::default()
    };
    App::start_with(Backend::Sqlite, options).await
}

fn signature(secret: &str, request: &ReceivedRequest) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(secret).unwrap()).unwrap();
    let signed = format!("{}.{}.{}", request.header("webhook-id"), request.header("webhook-timestamp"), request.body);
    mac.update(signed.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_signed_with_the_secret_of_the_hook_or_the_service() {
    let app = app().await;
    let receiver = silent().await;
    for event in ["before_tool_call", "after_tool_call", "tool_result_persist"] {
        app.hook(event, &receiver, "/own", json!({"secret": format!("whsec_{OWN}")})).await;
        app.hook(event, &receiver, "/service", json!({})).await;
    }
    app.call("echo", json!({"text": crate::support::shapes::HARD_TEXT})).await;
    receiver.received(6).await;
    let mut ids = std::collections::BTreeSet::new();
    for request in receiver.requests() {
        let secret = if request.target == "/own" { OWN } else { SERVICE };
        assert_eq!(request.header("webhook-signature"), signature(secret, &request), "{request:?}");
        assert_eq!(request.header("webhook-timestamp"), "1772323200");
        assert_eq!((request.method.as_str(), request.header("content-type")), ("POST", "application/json"));
        assert!(ids.insert(request.header("webhook-id").to_owned()), "each message has an id of its own");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_match_the_golden_files() {
    let app = app().await;
    let receiver = silent().await;
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
    let image = json!({"type": "image", "data": pixel, "mime_type": "image/png"});
    let answer = json!({"content": [{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}],
        "structured": {"n": 2}, "details": {"rows": [1]}, "metadata": {"m": 1}});
    let tool = HttpTool::answering(Answer::json(&answer)).await;
    app.http_tool("t", &tool).await;
    for event in ["before_tool_call", "after_tool_call", "tool_result_persist"] {
        app.hook(event, &receiver, &format!("/{event}"), json!({})).await;
    }
    let call = json!({"id": "call_1", "name": "t", "arguments": "{\"a\": \"é\"}", "session": "s1"});
    let id = app.call_with(call).await["id"].clone();
    receiver.received(3).await;
    let body = |request: &ReceivedRequest| {
        let mut body = request.json();
        // The fixture does not contain the ids, which differ in each run.
        assert_eq!(body["call"]["id"].take(), id);
        body["call"]["id"] = "ID".into();
        (request.target.trim_start_matches('/').to_owned(), body)
    };
    let mut bodies: Map<String, Value> = receiver.requests().iter().map(body).collect();
    bodies.sort_keys();
    same_json("hook_bodies", &bodies.into());
}
