//! The documented memory is enough, whatever callers send.

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::shapes::succeeded;
use crate::support::{Backend, Node, Response, eventually};

/// What the service needs with its default settings, in KiB (docs/operations/sizing.md).
const DOCUMENTED: u64 = 512 * 1024;
/// Just below `server.max_body_bytes`.
const LARGE: usize = 4_000_000;
/// How long all of some requests may take: the tests' build is slow, and so is a machine with other work.
const LONG: Duration = Duration::from_secs(180);

/// A body of this size around `middle`, which is repeated.
fn body(begin: &str, middle: &str, end: &str) -> Bytes {
    let times = (LARGE - begin.len() - end.len()) / middle.len();
    [begin, &middle.repeat(times), end].concat().into()
}

/// The most memory that the service has had so far, in KiB.
fn peak(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sends so many of them at once, over connections of their own. Each is answered well, or with a 503; how many were
/// answered well.
async fn at_once(node: &Node, count: usize, body: &Bytes) -> usize {
    let mut requests = JoinSet::new();
    for _ in 0..count {
        let request = node.request(reqwest::Method::POST, "/tool-calls").header("content-type", "application/json");
        let request = request.body(body.clone()).send();
        requests.spawn(async move {
            let answer = tokio::time::timeout(LONG, request).await.expect("an answer in time").expect("an answer");
            let (status, text) = (answer.status().as_u16(), answer.bytes().await.expect("a whole answer"));
            if status == 503 {
                let problem: Value = serde_json::from_slice(&text).expect("a problem");
                assert!(["OVERLOADED", "STORE_UNAVAILABLE"].contains(&problem["code"].as_str().unwrap()), "{problem}");
            } else {
                assert_eq!(status, 200, "{:.500}", String::from_utf8_lossy(&text));
            }
            usize::from(status == 200)
        });
    }
    let mut good = 0;
    while let Some(answered) = requests.join_next().await {
        good += answered.unwrap();
    }
    assert!(peak(node) < DOCUMENTED, "{} KiB after {:.60}", peak(node), String::from_utf8_lossy(body));
    good
}

/// Sends so many at once, and then a small call, for which there is room again.
async fn survives(node: &Node, count: usize, body: Bytes) {
    let good = at_once(node, count, &body).await;
    assert!(good > 0, "none of {count} was taken: {:.60}", String::from_utf8_lossy(&body));
    let small = json!({"name": "echo", "arguments": {"a": 1}});
    let answer = eventually("room", || async {
        let answer: Response = node.post("/tool-calls", &small).await;
        (answer.status == 200).then(|| answer.ok())
    })
    .await;
    succeeded(&answer);
}

on_both_databases!(
    async fn many_large_bodies_at_once_do_not_end_the_service(backend: Backend) {
        let node = Node::start(backend, &[]).await;
        // Somebody watches and does not read.
        let _watcher = node.events("/events").await;
        survives(&node, 64, body(r#"{"name":"nope","arguments":{"t":""#, "x", r#""}}"#)).await;
        survives(&node, 32, body(r#"{"name":"echo","arguments":{"t":""#, "x", r#""}}"#)).await;
        // What a model writes is a text within the text.
        survives(&node, 16, body(r#"{"name":"echo","arguments":"{\"t\":\""#, "x", r#"\"}"}"#)).await;
        // Refused, with all that was received.
        survives(&node, 16, body(r#"{"name":"calculate","arguments":{"t":""#, "x", r#""}}"#)).await;
        let call = format!(r#"{{"name":"echo","arguments":{{"t":"{}"}}}},"#, "x".repeat(100_000));
        survives(&node, 32, body(r#"{"calls":["#, &call, r#"{"name":"echo"}]}"#)).await;
    }
);

on_both_databases!(
    async fn bodies_of_many_small_values_do_not_end_the_service(backend: Backend) {
        let node = Node::start(backend, &[]).await;
        for dense in [
            body(r#"{"name":"echo","arguments":{"t":["#, "[],", "0]}}"),
            body(r#"{"name":"calculate","arguments":{"t":["#, r#"{"":0},"#, "0]}}"),
        ] {
            // Each needs most of the room, so of several at once any number may be refused.
            at_once(&node, 16, &dense).await;
            survives(&node, 1, dense).await;
        }
    }
);
