//! `/sessions`: shared state of the calls of a conversation (docs/reference/contract.md, section 10).

use serde_json::{Value, json};

use crate::support::{App, Client, Response};

mod abort;
mod basics;
mod completion;
mod events;
mod expiry;
mod isolation;
mod rendering;
mod tasks;

/// Creates a session with these members.
async fn made(client: &Client, session: Value) -> Value {
    let answer = client.post("/sessions", &session).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json
}

async fn read(client: &Client, id: &str) -> Value {
    client.get(&format!("/sessions/{id}")).await.ok()
}

async fn abort(client: &Client, id: &str) -> Value {
    let answer = client.post_empty(&format!("/sessions/{id}/abort")).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json
}

async fn complete(client: &Client, id: &str, completion: Value) -> Response {
    client.post(&format!("/sessions/{id}/complete"), &completion).await
}

/// Returns the value of `member` of each call in the list.
fn listed(session: &Value, list: &str, member: &str) -> Vec<String> {
    let items = session[list].as_array().unwrap();
    items.iter().map(|item| item[member].as_str().unwrap().to_owned()).collect()
}

/// Registers a tool with the executor `external`.
async fn external(app: &App, name: &str) {
    let definition = json!({"name": name, "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    app.register(definition).await;
}
