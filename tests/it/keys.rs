//! API keys: their scopes, how they end, and when none is required.

use serde_json::{Value, json};

use crate::support::{App, Backend, Client};

mod bounds;
mod lifecycle;
mod others_calls;
mod program;
mod routes;
mod streams;
mod tools;

/// Starts a service and returns a client with an admin key.
async fn service(backend: Backend) -> (App, Client) {
    let app = App::start(backend).await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    (app, operator)
}

/// Creates a key and returns a client with it.
async fn keyed(operator: &Client, body: Value) -> Client {
    let (key, _) = operator.key(body).await;
    operator.with_key(&key)
}
