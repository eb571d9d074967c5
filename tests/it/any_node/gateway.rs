//! Three nodes behind a real nginx with the shipped configuration, which forwards the requests of every client in turn.

use serde_json::json;

use super::aborted;
use super::mcp::{call as mcp_call, say};
use crate::gateway::Nginx;
use crate::mcp::{message, session};
use crate::partial::{open, patch, piece};
use crate::support::calls::{gated, id_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client, Options};

/// The nodes and the gateway in front of them.
pub struct Cluster {
    pub nodes: [App; 3],
    pub nginx: Nginx,
}

pub async fn cluster() -> Cluster {
    // Three nodes may wait long for one busy disk.
    let options = Options { egress_allow: vec!["127.0.0.1".into()], patience_ms: Some(15_000), ..Options::default() };
    let one = App::start_with(Backend::Postgres, options).await;
    let nodes = [one.second().await, one.second().await, one];
    let nginx = Nginx::before_all(&nodes.each_ref().map(|node| -> &Client { node })).await;
    Cluster { nodes, nginx }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn arguments_are_streamed_through_a_gateway() {
    let cluster = cluster().await;
    let client = cluster.nginx.client();
    let id = open(&client, "echo", "{\"a\":\"").await;
    for seq in 1..=12 {
        let chunk = json!({"delta": format!("{seq},"), "seq": seq});
        piece(&client, &id, chunk.clone()).await;
        assert_eq!(patch(&client, &id, &chunk).await.json["seq"], seq, "the repetition reaches another node");
    }
    assert_eq!(patch(&client, &id, &json!({"delta": "x", "seq": 14})).await.problem(409)["code"], "SEQUENCE_GAP");
    piece(&client, &id, json!({"delta": "\"}", "seq": 13, "final": true})).await;
    let call = super::ended(&client, &id).await;
    assert_eq!(call["structured"]["a"], (1..=12).map(|seq| format!("{seq},")).collect::<String>());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn retried_request_runs_once_behind_a_gateway() {
    let (cluster, server) = (cluster().await, gated("done").await);
    cluster.nodes[2].tool("act", &server, json!({})).await;
    for node in &cluster.nodes {
        let is_known = async || (node.get("/tools/act").await.status == 200).then_some(());
        crate::support::eventually("the tool at every node", is_known).await;
    }
    let client = cluster.nginx.client();
    let retries: Vec<_> = (0..6)
        .map(|_| {
            let client = client.clone();
            let headers = [("idempotency-key", "k")];
            tokio::spawn(async move { client.post_with("/tool-calls", &headers, &json!({"name": "act"})).await })
        })
        .collect();
    server.received(1).await;
    server.open();
    let mut ids = Vec::new();
    for retry in retries {
        let call = retry.await.unwrap().ok();
        assert_eq!(succeeded(&call), "done");
        ids.push(id_of(&call));
    }
    ids.dedup();
    assert_eq!((ids.len(), server.requests().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn calls_are_cancelled_and_answered_through_a_gateway() {
    let cluster = cluster().await;
    let client = cluster.nginx.client();
    let ask = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    client.register(ask).await;
    for node in &cluster.nodes {
        let is_known = async || (node.get("/tools/ask").await.status == 200).then_some(());
        crate::support::eventually("the tool at every node", is_known).await;
    }
    for _ in 0..3 {
        let accepted = client.post("/tool-calls", &json!({"name": "ask", "wait": "accepted"})).await;
        let id = id_of(&accepted.json);
        client.cancel(&id).await;
        aborted(&super::ended(&client, &id).await);
        let accepted = client.post("/tool-calls", &json!({"name": "ask", "wait": "accepted"})).await;
        let id = id_of(&accepted.json);
        client.in_phase(&id, "external").await;
        assert_eq!(client.post(&format!("/tool-calls/{id}/result"), &json!("done")).await.ok()["ignored"], false);
        assert_eq!(succeeded(&super::ended(&client, &id).await), "done");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn old_mcp_session_works_behind_a_gateway() {
    let cluster = cluster().await;
    let client = cluster.nginx.client();
    let id = session(&client).await;
    for number in 0..9 {
        let answer = say(&client, &id, &mcp_call(json!(number), "calculate", json!({"expression": "6 * 7"}))).await;
        assert_eq!(message(&answer)["result"]["content"][0]["text"], "42", "{}", answer.text());
    }
}
