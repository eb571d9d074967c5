//! External calls survive a crash: the next run still waits for their results.

use serde_json::{Value, json};

use crate::support::calls::{assert_counts, id_of};
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, Backend, Client, HttpTool, Node, Response, eventually};

async fn ask(node: &Node, more: Value) -> String {
    let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    node.register(crate::support::calls::with(definition, more)).await;
    let id = node.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    node.in_phase(&id, "external").await;
    id
}

async fn with_token(client: &Client, path: &str, token: &Value, body: &Value) -> Response {
    let request = client.request(reqwest::Method::POST, path).bearer_auth(token.as_str().unwrap());
    send(request.json(body)).await
}

on_both_databases!(
    async fn result_is_awaited_after_a_crash(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let id = ask(&node, json!({})).await;
        node.post(&format!("/tool-calls/{id}/progress"), &json!({"tip": "before"})).await;
        eventually("the report", || async { (node.stored(&id).await["tip"] == "before").then_some(()) }).await;
        node.kill().await;
        node.start_again().await;
        let call = node.stored(&id).await;
        assert_eq!((&call["status"], &call["phase"]), (&json!("DOING"), &json!("external")));
        // On Postgres, the next run adopts the call when the lease of the previous run has expired.
        let answer = node.post(&format!("/tool-calls/{id}/result"), &json!("at last")).await.ok();
        assert_eq!(answer["ignored"], false);
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), &call["attempts"], &call["tip"]), ("at last", &json!(1), &json!("before")));
        let events = node.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!((statuses(&events), count(&events, "tool_result")), (vec!["WAIT", "DOING", "SUCCESS"], 1));
        assert_counts(&node.stats("ask").await, json!({"execution_count": 1, "retry_count": 0}));
    }
);

on_both_databases!(
    async fn token_survives_a_crash(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let server = HttpTool::answering(Answer::status(202, "text/plain", "")).await;
        node.tool("later", &server, json!({"async": true})).await;
        let id = node.accepted(json!({"name": "later"})).await;
        node.in_phase(&id, "external").await;
        let request = server.request().json();
        node.kill().await;
        node.start_again().await;
        let path = format!("/tool-calls/{}/result", id_of(&request));
        with_token(&node, &path, &json!("wrong"), &json!("forged")).await.problem(401);
        with_token(&node, &path, &request["token"], &json!("at last")).await.ok();
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), server.requests().len()), ("at last", 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_a_result_times_out_after_a_restart() {
    let mut node = Node::start(Backend::Sqlite, &[]).await;
    let id = ask(&node, json!({"limits": {"timeout_ms": 2000}})).await;
    node.kill().await;
    node.start_again().await;
    let call = node.ended(&id).await;
    assert_eq!(failed(&call, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 2000ms (timeout_ms)");
}
