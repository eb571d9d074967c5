//! The signature of every request (Standard Webhooks), checked as a receiver would.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use toolpost::domain::Time;

use crate::support::app::http_tool;
use crate::support::shapes::{HARD_TEXT, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Options, ReceivedRequest};

/// The example of the Standard Webhooks libraries.
const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn app_and_server(frozen_at: Option<Time>) -> (App, HttpTool) {
    let options = Options {
        egress_allow: vec!["127.0.0.1".into()],
        signing_secret: Some(format!("whsec_{SECRET}")),
        frozen_at,
        ..Options::default()
    };
    (App::start_with(Backend::Sqlite, options).await, HttpTool::answering(Answer::text("ok")).await)
}

/// Returns the signature of a request, computed with the receiver's secret.
fn expected(request: &ReceivedRequest) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(SECRET).unwrap()).unwrap();
    let signed = format!("{}.{}.{}", request.header("webhook-id"), request.header("webhook-timestamp"), request.body);
    mac.update(signed.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_signed_with_id_and_time() {
    let time = Time::parse("2026-03-01T00:00:00.900Z").unwrap();
    for form in [
        json!({}),
        json!({"method": "PUT", "body": {"text": "{text}"}}),
        json!({"method": "GET"}),
        json!({"body": {"text": "{text}"}, "headers": {"content-type": "application/x-www-form-urlencoded"}}),
    ] {
        let (app, server) = app_and_server(Some(time)).await;
        let mut executor = form.clone();
        executor["url"] = server.url("/run").into();
        app.register(http_tool("t", executor)).await;
        let call = app.call("t", json!({"text": HARD_TEXT})).await;
        succeeded(&call);
        let request = server.request();
        assert_eq!(request.header("webhook-id"), call["id"], "{form}");
        assert_eq!(request.header("idempotency-key"), call["id"], "{form}");
        assert_eq!(request.header("webhook-timestamp"), "1772323200", "{form}");
        assert_eq!(request.header("webhook-signature"), expected(&request), "{form}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_is_signed_again_within_the_origin_only() {
    let (app, elsewhere) = app_and_server(None).await;
    let away = elsewhere.url("/away");
    let home = HttpTool::start("127.0.0.1", move |request| match request.target.as_str() {
        "/start" => Answer::redirect(303, "/second"),
        _ => Answer::redirect(307, &away),
    })
    .await;
    app.register(http_tool("t", json!({"url": home.url("/start")}))).await;
    assert_eq!(succeeded(&app.call("t", json!({"a": 1})).await), "ok");
    let [first, second] = &home.requests()[..] else { panic!("{:?}", home.requests()) };
    assert!(!first.body.is_empty() && second.body.is_empty());
    for request in [first, second] {
        assert_eq!(request.header("webhook-signature"), expected(request));
    }
    let away = elsewhere.request();
    assert_eq!((away.header("webhook-id"), away.header("webhook-signature")), ("", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_cannot_set_the_signature() {
    let (app, server) = app_and_server(None).await;
    let definition = http_tool("t", json!({"url": server.url("/"), "headers": {"Webhook-Signature": "v1,x"}}));
    let problem = app.post("/tools", &definition).await.problem(422);
    assert_eq!(problem["errors"][0]["pointer"], "/executor/headers/Webhook-Signature");
}
