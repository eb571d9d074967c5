//! Rate and concurrency limits of a key.

use serde_json::json;

use super::{keyed, service};
use crate::support::app::http_tool;
use crate::support::calls::gated;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_key_gets_a_delay_and_others_are_unaffected() {
    let (_app, operator) = service(Backend::Sqlite).await;
    let client = keyed(&operator, json!({"scopes": ["read"], "rate": 2})).await;
    let other = keyed(&operator, json!({"scopes": ["read"], "rate": 2})).await;
    for _ in 0..2 {
        assert_eq!(client.get("/stats").await.status, 200);
    }
    let answer = client.get("/stats").await;
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(answer.problem(429)["code"], "TOO_MANY_REQUESTS");
    assert_eq!(other.get("/stats").await.status, 200);
    // Changes of other keys do not reset the count.
    other.get("/stats").await.ok();
    keyed(&operator, json!({"scopes": ["read"]})).await;
    client.get("/stats").await.problem(429);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_limit_admits_the_next_after_an_end() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    let server = gated("done").await;
    operator.register(http_tool("slow", json!({"url": server.url("/run")}))).await;
    let client = keyed(&operator, json!({"scopes": ["call"], "concurrency": 1})).await;
    let running = client.posted(json!({"name": "slow", "arguments": {}}));
    server.received(1).await;
    let answer = client.post("/tool-calls", &json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.problem(429)["code"], "TOO_MANY_REQUESTS");
    server.open();
    succeeded(&running.await.unwrap().ok());
    succeeded(&client.call("echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_counts_while_it_is_read() {
    let (_app, operator) = service(Backend::Sqlite).await;
    let client = keyed(&operator, json!({"scopes": ["read"], "concurrency": 1})).await;
    let stream = client.events("/events").await;
    client.get("/stats").await.problem(429);
    drop(stream);
    eventually("its place", || async { (client.get("/stats").await.status == 200).then_some(()) }).await;
}
