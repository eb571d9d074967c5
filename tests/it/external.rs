//! External calls, whose progress and result are posted.

use serde_json::{Value, json};

use crate::support::{App, Backend, Client, Response};

mod crash;
mod deferred_result;
mod early;
mod progress;
mod receipts;
mod refused;
mod result;

/// Starts a service with an `external` tool `ask`.
async fn service(backend: Backend, more: Value) -> App {
    let app = App::with_egress(backend).await;
    let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    app.register(crate::support::calls::with(definition, more)).await;
    app
}

/// Starts a call of `ask` and waits until it awaits its result.
async fn call_external(app: &App) -> String {
    let id = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    let call = app.in_phase(&id, "external").await;
    assert_eq!(call["status"], "DOING");
    id
}

async fn post_result(client: &Client, id: &str, result: &Value) -> Response {
    client.post(&format!("/tool-calls/{id}/result"), result).await
}

/// Posts a result that the service accepts.
async fn answer(client: &Client, id: &str, result: &Value) {
    let answer = post_result(client, id, result).await;
    assert!((200..300).contains(&answer.status), "{}", answer.text());
    assert_ne!(answer.json["ignored"], true, "{}", answer.text());
}

async fn post_progress(client: &Client, id: &str, progress: &Value) -> Response {
    client.post(&format!("/tool-calls/{id}/progress"), progress).await
}
