//! Chunks of arguments at a node that does not run the call.

use serde_json::json;

use super::{ended, requires_keys, two};
use crate::partial::{open, patch, piece};
use crate::support::client::{Response, send};
use crate::support::{Backend, Node};

fn code(answer: &Response) -> (u16, &str) {
    (answer.status, answer.json["code"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_at_different_nodes_form_one_call() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "{\"ci").await;
    piece(&other, &id, json!({"delta": "ty\":\"北", "seq": 1})).await;
    piece(&one, &id, json!({"delta": "京\",\"n\":1", "seq": 2})).await;
    piece(&other, &id, json!({"delta": "2}", "seq": 3})).await;
    let last = patch(&other, &id, &json!({"final": true})).await;
    assert!([200, 202].contains(&last.status), "{}", last.json);
    assert_eq!(last.headers["location"], format!("/tool-calls/{id}"));
    for node in [&one, &other] {
        let call = ended(node, &id).await;
        assert_eq!((&call["status"], &call["arguments"]), (&json!("SUCCESS"), &json!({"city": "北京", "n": 12})));
    }
    assert_eq!(other.stats("echo").await["execution_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_numbers_chunks_equally() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "{").await;
    let first = json!({"delta": "\"a\":", "seq": 1});
    let taken = patch(&other, &id, &first).await;
    assert_eq!((taken.status.into(), &taken.json["seq"], &taken.json["phase"]), (202, &json!(1), &json!("arguments")));
    // A repeated chunk is ignored at any node.
    for node in [&one, &other] {
        assert_eq!(patch(node, &id, &first).await.json["seq"], 1);
        let gap = patch(node, &id, &json!({"delta": "}", "seq": 3})).await;
        assert_eq!(code(&gap), (409, "SEQUENCE_GAP"));
        assert!(gap.json["detail"].as_str().unwrap().contains("the next chunk is 2"), "{}", gap.json);
    }
    piece(&other, &id, json!({"delta": "1}", "seq": 2, "final": true})).await;
    assert_eq!(ended(&one, &id).await["structured"], json!({"a": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_sent_to_all_nodes_at_once_is_appended_once() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "{\"a\":\"").await;
    for seq in 1..=20 {
        let chunk = json!({"delta": format!("{seq},"), "seq": seq});
        let (here, there, again) =
            tokio::join!(patch(&one, &id, &chunk), patch(&other, &id, &chunk), patch(&other, &id, &chunk));
        for answer in [here, there, again] {
            assert_eq!((answer.status, &answer.json["seq"]), (202, &json!(seq)), "{}", answer.json);
        }
    }
    piece(&other, &id, json!({"delta": "\"}", "final": true})).await;
    let whole: String = (1..=20).map(|seq| format!("{seq},")).collect();
    assert_eq!(ended(&other, &id).await["structured"]["a"], whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_at_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "{\"a\":\"").await;
    let half = "x".repeat(512 * 1024);
    piece(&other, &id, json!({"delta": half})).await;
    for delta in [half.clone(), "x".repeat(1024 * 1024 + 1)] {
        assert_eq!(code(&patch(&other, &id, &json!({"delta": delta})).await), (413, "PAYLOAD_TOO_LARGE"));
    }
    piece(&other, &id, json!({"delta": "\"}", "final": true})).await;
    assert_eq!(ended(&other, &id).await["structured"]["a"].as_str().unwrap().len(), half.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn late_chunks_and_unknown_calls_are_rejected_at_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "{}").await;
    piece(&other, &id, json!({"final": true})).await;
    for node in [&one, &other] {
        assert_eq!(code(&patch(node, &id, &json!({"delta": "x"})).await), (409, "ARGUMENTS_COMPLETE"));
        let unknown = "0197a000-0000-7000-8000-000000000000";
        assert_eq!(code(&patch(node, unknown, &json!({"final": true})).await), (404, "NOT_FOUND"));
    }
    let cancelled = open(&one, "echo", "{").await;
    other.cancel(&cancelled).await;
    assert_eq!(ended(&other, &cancelled).await["error"]["code"], "CANCELLED");
    assert_eq!(code(&patch(&other, &cancelled, &json!({"delta": "}"})).await), (409, "ARGUMENTS_COMPLETE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_waits_for_the_end_of_the_call() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "").await;
    let path = format!("/tool-calls/{id}/arguments");
    let last = other.request(reqwest::Method::PATCH, &path).header("prefer", "wait=30");
    let call = send(last.json(&json!({"delta": "{\"a\":1}", "final": true}))).await;
    assert_eq!((call.status.into(), &call.json["structured"]), (200, &json!({"a": 1})), "{}", call.json);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_received_by_another_node_are_shown() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = open(&one, "echo", "").await;
    let mut events = one.events(&format!("/tool-calls/{id}/events")).await;
    piece(&other, &id, json!({"delta": "{\"city\":\"Ber"})).await;
    events.until(|event| event.data["params"] == json!({"city": "Ber"})).await;
    piece(&other, &id, json!({"delta": "lin\"}", "final": true})).await;
    events.until(|event| event.event == "tool_result").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_killed_node_accepts_no_more_chunks() {
    requires_postgres!();
    let mut one = Node::start(Backend::Postgres, &[]).await;
    let other = one.second().await;
    let id = open(&one, "echo", "{").await;
    piece(&other, &id, json!({"delta": "\"a\":", "seq": 1})).await;
    one.kill().await;
    // The chunk waits until the other node has adopted the call, whose arguments are cut off.
    assert_eq!(code(&patch(&other, &id, &json!({"delta": "1}", "seq": 2})).await), (409, "ARGUMENTS_COMPLETE"));
    let call = ended(&other, &id).await;
    assert_eq!(call["error"]["code"], "ARGUMENTS_TRUNCATED", "{call}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_another_tenant_is_unknown_at_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let (admin, _) = one.key(json!({"scopes": ["admin"]})).await;
    let operator = one.with_key(&admin);
    let (owner, _) = operator.key(json!({"scopes": ["call", "read"], "tenant": "one"})).await;
    let (stranger, _) = operator.key(json!({"scopes": ["call", "read"], "tenant": "two"})).await;
    let id = open(&one.with_key(&owner), "echo", "").await;
    let (mine, foreign) = (other.with_key(&owner), other.with_key(&stranger));
    requires_keys(&other).await;
    assert_eq!(code(&patch(&foreign, &id, &json!({"delta": "{}"})).await), (404, "NOT_FOUND"));
    piece(&mine, &id, json!({"delta": "{\"a\":1}", "final": true})).await;
    assert_eq!(ended(&mine, &id).await["structured"], json!({"a": 1}));
}
