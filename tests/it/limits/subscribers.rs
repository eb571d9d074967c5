//! Limits on event streams: in total and for each caller, for every way to subscribe.

use reqwest::Method;
use serde_json::json;

use crate::mcp::modern;
use crate::support::client::send;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Response, eventually};

/// Subscribes to events in every possible way.
async fn ask_every_way(app: &App, call: &str) -> Vec<Response> {
    let events = |request: reqwest::RequestBuilder| send(request.header("accept", "text/event-stream"));
    let mut answers = Vec::new();
    for path in ["/events", &format!("/tool-calls/{call}/events"), "/sessions/s/events"] {
        answers.push(events(app.request(Method::GET, path)).await);
    }
    answers.push(events(app.request(Method::POST, "/tool-calls").json(&json!({"name": "echo"}))).await);
    answers.push(events(app.request(Method::POST, "/tool-calls/stream").body("")).await);
    answers
}

on_both_databases!(
    async fn stream_beyond_the_limit_is_rejected_until_another_ends(backend: Backend) {
        let app = App::tuned(backend, |config| config.events.max_subscribers = 1).await;
        let call = app.call_with(json!({"name": "echo", "session": "s"})).await;
        let id = call["id"].as_str().unwrap();
        let stream = app.events("/events").await;
        for answer in ask_every_way(&app, id).await {
            assert_eq!(answer.header("retry-after"), "1");
            assert_eq!(answer.problem(503)["code"], "OVERLOADED");
        }
        // Requests without events are still answered.
        succeeded(&app.call("echo", json!({})).await);
        assert_eq!(app.all_calls().await.len(), 2, "nothing of what was refused was accepted");
        drop(stream);
        let path = format!("/tool-calls/{id}/events");
        eventually("the place", || async { (app.get(&path).await.status == 200).then_some(()) }).await;
        // An ended stream releases its slot.
        for _ in 0..3 {
            let streamed = eventually("the place", || async {
                let request = app.request(Method::POST, "/tool-calls").json(&json!({"name": "echo"}));
                let answer = send(request.header("accept", "text/event-stream")).await;
                (answer.status == 200).then(|| answer.text())
            });
            assert!(streamed.await.contains("event: batch"));
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn caller_cannot_exceed_its_share_of_streams() {
    let app = App::tuned(Backend::Sqlite, |config| config.events.max_subscribers_per_key = 2).await;
    let (operator, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&operator);
    let (key, _) = operator.key(json!({"scopes": ["read"]})).await;
    let client = operator.with_key(&key);
    let streams = (client.events("/events").await, client.events("/events").await);
    let answer = client.get("/events").await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.problem(429)["code"], "TOO_MANY_STREAMS");
    assert_eq!(client.get("/stats").await.status, 200, "only streams are bounded");
    let _another = operator.events("/events").await;
    drop(streams);
    eventually("a place", || async {
        let request = client.request(Method::GET, "/events").header("accept", "text/event-stream");
        (request.send().await.unwrap().status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_subscription_counts_as_a_stream() {
    let app = App::tuned(Backend::Sqlite, |config| config.events.max_subscribers = 1).await;
    let stream = app.events("/events").await;
    let params = || json!({"notifications": {"toolsListChanged": true}});
    let listen = || modern(&app, "subscriptions/listen", params(), json!({}));
    assert_eq!(send(listen()).await.problem(503)["code"], "OVERLOADED");
    let list = send(modern(&app, "tools/list", json!({}), json!({}))).await;
    assert_eq!(list.status, 200, "{}", list.text());
    drop(stream);
    eventually("a place", || async { (listen().send().await.unwrap().status() == 200).then_some(()) }).await;
}
