//! MCP clients, with and without a session, whose requests reach any node.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{aborted, requires_keys, two, two_with};
use crate::mcp::{message, modern, posted, session};
use crate::support::client::send;
use crate::support::{Answer, App, Backend, Client, HttpTool, Response, eventually};

/// Sends a message of a session.
pub async fn say(node: &Client, session: &str, message: &Value) -> Response {
    send(posted(node, message).header("mcp-session-id", session)).await
}

pub fn call(id: Value, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

async fn end(node: &Client, session: &str) -> u16 {
    send(node.request(Method::DELETE, "/mcp").header("mcp-session-id", session)).await.status
}

/// Waits until a node does not know the session.
async fn is_unknown(node: &Client, session: &str) {
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"});
    eventually("the end of the session", async || {
        (say(node, session, &list).await.status == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_served_by_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let third = one.second().await;
    let id = session(&one).await;
    for (number, node) in [&other, &one, &third, &other].into_iter().enumerate() {
        let answer = say(node, &id, &call(json!(number), "calculate", json!({"expression": "6 * 7"}))).await;
        let answer = message(&answer);
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(number), &json!("42")));
        assert_eq!(answer["result"].get("resultType"), None, "{answer}");
        let list = json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"});
        let tools = message(&say(node, &id, &list).await)["result"]["tools"].clone();
        assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "calculate"));
    }
    // Concurrent first requests at a node restore the session once.
    let fourth = one.second().await;
    let sums = [10, 11, 12, 13].map(|number| call(json!(number), "calculate", json!({"expression": "1 + 1"})));
    let answers = futures_util::future::join_all(sums.iter().map(|sum| say(&fourth, &id, sum))).await;
    assert!(answers.iter().all(|answer| message(answer)["result"]["content"][0]["text"] == "2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_outlives_its_node() {
    requires_postgres!();
    let one = App::start(Backend::Postgres).await;
    let id = session(&one).await;
    let one = one.restart().await;
    let answer = say(&one, &id, &call(json!(1), "calculate", json!({"expression": "1 + 1"}))).await;
    assert_eq!(message(&answer)["result"]["content"][0]["text"], "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_ended_at_one_node_ends_at_all() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    let (one, other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    let id = session(&one).await;
    let running = posted(&one, &call(json!(1), "look", json!({}))).header("mcp-session-id", &id);
    let running = tokio::spawn(running.send());
    server.received(1).await;
    assert_eq!(end(&other, &id).await, 200);
    server.closed().await;
    aborted(&super::ended(&other, &other.only("look").await).await);
    for node in [&one, &other] {
        is_unknown(node, &id).await;
    }
    assert_eq!(end(&one, &id).await, 404);
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_cancelled_from_any_node() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    // The one tool is stored before it runs, the other is not.
    let (one, other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    one.tool("act", &server, json!({})).await;
    let id = session(&one).await;
    for (number, name) in [(1, "look"), (2, "act")] {
        let request = format!("c-{number}");
        let running = posted(&one, &call(json!(request), name, json!({}))).header("mcp-session-id", &id);
        let running = tokio::spawn(running.send());
        server.received(number).await;
        let params = json!({"requestId": request, "reason": "no more"});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        assert_eq!(say(&other, &id, &cancel).await.status, 202);
        aborted(&super::ended(&other, &other.only(name).await).await);
        drop(running);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_equal_ids_at_two_nodes_are_distinguished() {
    requires_postgres!();
    let server = HttpTool::answering(Answer::Never).await;
    let (one, other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    let id = session(&one).await;
    let running = posted(&one, &call(json!(1), "look", json!({}))).header("mcp-session-id", &id);
    let running = tokio::spawn(running.send());
    server.received(1).await;
    // A request with the same id at the other node gets its own answer.
    let sum = message(&say(&other, &id, &call(json!(1), "calculate", json!({"expression": "6 * 7"}))).await);
    assert_eq!((&sum["id"], &sum["result"]["content"][0]["text"]), (&json!(1), &json!("42")));
    // That request has ended, so the cancellation means the running one.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(say(&other, &id, &cancel).await.status, 202);
    aborted(&super::ended(&other, &other.only("look").await).await);
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_of_another_key_is_unknown_at_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let (admin, _) = one.key(json!({"scopes": ["admin"]})).await;
    let (stranger, _) = one.with_key(&admin).key(json!({"scopes": ["call", "read"]})).await;
    let id = session(&one.with_key(&admin)).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let foreign = other.with_key(&stranger);
    requires_keys(&other).await;
    say(&foreign, &id, &list).await.problem(404);
    assert_eq!(end(&foreign, &id).await, 404);
    // The session of the owner is unchanged.
    assert_eq!(say(&other.with_key(&admin), &id, &list).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_session_and_tasks_are_served_by_every_node() {
    requires_postgres!();
    let (one, other) = two().await;
    one.register(json!({
        "name": "later", "description": "Waits.", "async": true, "input_schema": {"type": "object"},
        "executor": {"type": "external"},
    }))
    .await;
    let tasks =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let created = modern(&one, "tools/call", json!({"name": "later", "arguments": {}}), tasks.clone());
    let created = send(created).await.ok()["result"].clone();
    let task = created["taskId"].as_str().unwrap_or_else(|| panic!("{created:#}")).to_owned();
    let get = |node: &Client| send(modern(node, "tasks/get", json!({"taskId": task}), tasks.clone()));
    assert_eq!(get(&other).await.ok()["result"]["status"], "working");
    let cancelled = send(modern(&other, "tasks/cancel", json!({"taskId": task}), tasks.clone())).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    for node in [&one, &other] {
        eventually("the end", async || (get(node).await.ok()["result"]["status"] == "cancelled").then_some(())).await;
        let sum =
            modern(node, "tools/call", json!({"name": "calculate", "arguments": {"expression": "1 + 1"}}), json!({}));
        assert_eq!(send(sum).await.ok()["result"]["content"][0]["text"], "2");
    }
}
