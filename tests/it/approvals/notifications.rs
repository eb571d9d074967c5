//! `approval.requested` and `approval.decided`: signed, durable, and sent to the URL of the tool or of the settings.

use std::sync::OnceLock;

use serde_json::{Value, json};
use toolpost::config::Config;

use super::{decide, gated, waiting};
use crate::support::calls::id_of;
use crate::support::shapes::is_time;
use crate::support::{Answer, App, Backend, HttpTool, ReceivedRequest, eventually};

/// Waits for this many notifications, and returns them in the order of their times.
async fn notifications(receiver: &HttpTool, count: usize) -> Vec<Value> {
    let all = || async {
        let requests = receiver.requests();
        (requests.len() >= count).then(|| requests.iter().map(ReceivedRequest::json).collect::<Vec<Value>>())
    };
    let mut all = eventually("the notifications", all).await;
    assert_eq!(all.len(), count, "{all:#?}");
    all.sort_by_key(|one| one["timestamp"].as_str().unwrap().to_owned());
    all
}

on_both_databases!(
    async fn request_and_decision_are_sent(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
        gated(&app, "pay", json!({"notify_url": receiver.url("/approvals")})).await;
        let call = waiting(&app, "pay", json!({"amount": 5})).await;
        let requested = notifications(&receiver, 1).await.remove(0);
        assert_eq!(requested["type"], "approval.requested");
        assert!(is_time(&requested["timestamp"]));
        assert_eq!(requested["data"], app.stored(&id_of(&call)).await);
        let request = receiver.requests().remove(0);
        assert!(request.header("webhook-signature").starts_with("v1,"));
        assert_eq!(request.target, "/approvals");
        decide(&app, &call, "reject", json!({"reason": "no"})).await.ok();
        let decided = notifications(&receiver, 2).await.remove(1);
        assert_eq!(decided["type"], "approval.decided");
        assert_eq!((&decided["data"]["id"], &decided["data"]["approval"]["status"]), (&call["id"], &json!("rejected")));
    }
);

on_both_databases!(
    async fn failed_notification_is_sent_again(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver =
            crate::retries::answers(vec![Answer::status(500, "text/plain", ""), Answer::text("thanks")]).await;
        gated(&app, "pay", json!({"notify_url": receiver.url("/")})).await;
        waiting(&app, "pay", json!({})).await;
        let requests = || async { (receiver.requests().len() == 2).then(|| receiver.requests()) };
        let requests = eventually("the second attempt", requests).await;
        assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
        assert_eq!(requests[0].body, requests[1].body);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn expiry_and_new_digest_are_notified() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
    gated(&app, "soon", json!({"expires_ms": 1, "notify_url": receiver.url("/")})).await;
    app.call_with(json!({"name": "soon", "wait": "result"})).await;
    let states: Vec<Value> =
        notifications(&receiver, 2).await.iter().map(|one| one["data"]["approval"]["status"].clone()).collect();
    assert_eq!(states, ["pending", "expired"]);
    let edited = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
    gated(&app, "pay", json!({"min_approvals": 2, "notify_url": edited.url("/")})).await;
    let call = waiting(&app, "pay", json!({"amount": 9})).await;
    notifications(&edited, 1).await;
    decide(&app, &call, "approve", json!({"arguments": {"amount": 3}})).await.ok();
    let again = notifications(&edited, 2).await.remove(1);
    assert_eq!(again["type"], "approval.requested");
    assert_eq!(again["data"]["effective_arguments"], json!({"amount": 3}));
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_url_receives_requests_of_tools_without_a_url() {
    static URL: OnceLock<String> = OnceLock::new();
    let thanks = || HttpTool::answering(Answer::status(204, "text/plain", ""));
    let (general, own) = (thanks().await, thanks().await);
    URL.set(general.url("/all")).unwrap();
    let configure = |config: &mut Config| config.approvals.notify_url.clone_from(URL.get().unwrap());
    let app = App::tuned(Backend::Sqlite, configure).await;
    gated(&app, "pay", json!({})).await;
    gated(&app, "mail", json!({"notify_url": own.url("/mail")})).await;
    let (pay, mail) = (waiting(&app, "pay", json!({})).await, waiting(&app, "mail", json!({})).await);
    assert_eq!(notifications(&general, 1).await[0]["data"]["name"], "pay");
    app.cancel(&id_of(&pay)).await;
    app.ended(&id_of(&pay)).await;
    decide(&app, &mail, "approve", json!({})).await.ok();
    assert_eq!(notifications(&own, 2).await[1]["type"], "approval.decided");
    assert_eq!(general.requests().len(), 1, "a cancelled call sends no decision");
}
