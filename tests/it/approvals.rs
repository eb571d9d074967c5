//! Approvals: calls that wait for the decision of a person.

use serde_json::{Value, json};

use crate::support::calls::{id_of, with};
use crate::support::{App, Backend, Client, Options, Response};

mod changes;
mod clocks;
mod decisions;
mod definition;
mod edits;
mod lists;
mod notifications;
mod origins;
mod races;
mod remembered;
mod slack;
mod waiting;

/// A service with keys.
struct Service {
    _app: App,
    admin: Client,
    /// Makes calls and registers tools.
    caller: Client,
    /// Decides about calls.
    approver: Client,
}

impl Service {
    async fn start(backend: Backend) -> Self {
        let app = App::start(backend).await;
        let (admin, _) = key(&app, json!({"scopes": ["admin"]})).await;
        let (caller, _) = key(&admin, json!({"scopes": ["call", "read", "tools"]})).await;
        let (approver, _) = key(&admin, json!({"scopes": ["approve", "read"]})).await;
        Self { _app: app, admin, caller, approver }
    }
}

/// Creates a key. Returns a client with it, and the id of the key.
async fn key(admin: &Client, body: Value) -> (Client, String) {
    let (key, id) = admin.key(body).await;
    (admin.with_key(&key), id)
}

/// Registers an echo tool whose calls need approval.
async fn gated(client: &Client, name: &str, approval: Value) {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer", "maximum": 100}}});
    let definition = json!({"name": name, "description": "Pays.", "input_schema": schema,
        "executor": {"type": "builtin", "name": "echo"}, "approval": approval});
    assert_eq!(client.post("/tools", &definition).await.status, 201);
}

/// Makes a call and returns it as it waits.
async fn waiting(caller: &Client, name: &str, arguments: Value) -> Value {
    waiting_with(caller, json!({"name": name, "arguments": arguments})).await
}

async fn waiting_with(caller: &Client, body: Value) -> Value {
    let response = caller.post("/tool-calls", &body).await;
    assert_eq!(response.status, 202, "{}", response.text());
    let call = response.json;
    assert_eq!((&call["status"], &call["phase"]), (&json!("WAIT"), &json!("approval")), "{call:#}");
    call
}

/// Sends a decision about a call as it was seen.
async fn decide(approver: &Client, call: &Value, decision: &str, more: Value) -> Response {
    let body = with(json!({"decision": decision, "digest": call["approval"]["digest"]}), more);
    approver.post(&format!("/tool-calls/{}/approval", id_of(call)), &body).await
}

/// Starts a service whose callers may approve their own calls, without keys.
async fn open(backend: Backend) -> App {
    App::start_with(backend, Options::default()).await
}
