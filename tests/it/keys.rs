//! API keys: what they may do, how they end, and when nobody needs one.

use serde_json::{Value, json};

use crate::support::{App, Backend, Client};

mod bounds;
mod lifecycle;
mod others_calls;
mod program;
mod routes;
mod streams;
mod tools;

/// A service with a key that may do everything.
async fn service(backend: Backend) -> (App, Client) {
    let app = App::start(backend).await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    (app, operator)
}

/// A client with a new key.
async fn keyed(operator: &Client, body: Value) -> Client {
    let (key, _) = operator.key(body).await;
    operator.with_key(&key)
}
