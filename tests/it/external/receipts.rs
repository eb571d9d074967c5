//! What the receipt of a result says is true, whichever node gives it.

use serde_json::{Value, json};

use super::{call_external, service};
use crate::chaos::times;
use crate::nodes::pair;
use crate::oracle::Receipt;
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::{Answer, Backend, Client, HttpTool, eventually};

/// Number of pairs of each kind, in the short and in the long form.
const ROUNDS: (usize, usize) = (100, 1_000);

/// Posts a result of a call, with the token of the call if there is one. Returns its receipt.
async fn receipt(client: Client, id: String, token: Option<String>, result: &'static str) -> Receipt {
    let request = client.request(reqwest::Method::POST, &format!("/tool-calls/{id}/result")).json(&json!(result));
    let response = send(match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    });
    let ignored = response.await.ok()["ignored"].as_bool().unwrap();
    Receipt { id, result: result.to_owned(), is_ignored: ignored }
}

/// Posts two results of a call at once, one at each node, and checks what their receipts say.
async fn post_two(nodes: [&Client; 2], id: &str, token: Option<String>) {
    let post = |node: usize, result| tokio::spawn(receipt(nodes[node].clone(), id.to_owned(), token.clone(), result));
    let (one, other) = (post(0, "one"), post(1, "other"));
    let receipts = [one.await.unwrap(), other.await.unwrap()];
    let call = nodes[1].ended(id).await;
    let counted: Vec<&Receipt> = receipts.iter().filter(|receipt| !receipt.is_ignored).collect();
    assert_eq!(counted.len(), 1, "{receipts:?} of {call:#}");
    assert_eq!(Receipt::violations(&receipts, &[call]), Vec::<String>::new());
}

async fn register(client: &Client, definition: Value, nodes: [&Client; 2]) {
    let path = format!("/tools/{}", definition["name"].as_str().unwrap());
    client.register(definition).await;
    for node in nodes {
        eventually("the tool", async || (node.get(&path).await.status == 200).then_some(())).await;
    }
}

fn ask() -> Value {
    json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_results_at_two_nodes_wins() {
    requires_postgres!();
    let (one, other) = pair().await;
    register(&one, ask(), [&one, &other]).await;
    for _ in 0..times(ROUNDS.0, ROUNDS.1) {
        let id = call_external(&one).await;
        post_two([&one, &other], &id, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_results_of_an_http_tool_at_two_nodes_wins() {
    requires_postgres!();
    let (one, other) = pair().await;
    let server = HttpTool::answering(Answer::status(202, "text/plain", "")).await;
    one.http_tool("later", &server).await;
    eventually("the tool", async || (other.get("/tools/later").await.status == 200).then_some(())).await;
    for round in 1..=times(ROUNDS.0, ROUNDS.1) {
        let id = one.accepted(json!({"name": "later", "wait": "accepted"})).await;
        server.received(round).await;
        let sent = server.requests()[round - 1].json();
        assert_eq!(id_of(&sent), id);
        post_two([&one, &other], &id, sent["token"].as_str().map(str::to_owned)).await;
    }
}

on_both_databases!(
    async fn one_of_two_results_at_one_node_wins(backend: Backend) {
        let app = service(backend, json!({})).await;
        for _ in 0..20 {
            let id = call_external(&app).await;
            post_two([&app, &app], &id, None).await;
        }
    }
);
