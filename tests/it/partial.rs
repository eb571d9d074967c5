//! Arguments in chunks (docs/reference/contract.md, section 8).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Client;
use crate::support::client::{Response, send};

mod chunks;
mod ends;
mod shutdown;

/// Opens a call and returns its id.
pub async fn open(app: &Client, name: &str, beginning: &str) -> String {
    let body = json!({"id": "call_1", "name": name, "partial": true, "arguments": beginning});
    let answer = app.post("/tool-calls", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.json);
    let call = answer.json;
    assert_eq!((&call["status"], &call["phase"]), (&json!("WAIT"), &json!("arguments")), "{call}");
    call["id"].as_str().unwrap().to_owned()
}

pub async fn patch(app: &Client, id: &str, body: &Value) -> Response {
    send(app.request(Method::PATCH, &format!("/tool-calls/{id}/arguments")).json(body)).await
}

/// Sends a chunk and checks that it is accepted.
pub async fn piece(app: &Client, id: &str, body: Value) {
    let answer = patch(app, id, &body).await;
    // The call may have ended when the last chunk is answered.
    let is_taken = answer.status == 202 || answer.status == 200 && body["final"] == true;
    assert!(is_taken, "{body}: {}", answer.json);
}

/// Waits until the call has ended, and returns it.
async fn ended(app: &Client, id: &str) -> Value {
    app.get(&format!("/tool-calls/{id}?wait_ms=30000")).await.ok()
}
