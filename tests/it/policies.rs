//! Policies: what they decide about calls, how they are declared, and what they would have decided.

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::{Client, Response};

mod deciding;
mod declared;
mod scope;
mod tried;

/// Creates a policy.
async fn policy(operator: &Client, name: &str, when: &str, effect: &str, more: Value) -> Response {
    let body = with(json!({"name": name, "when": when, "effect": effect}), more);
    let response = operator.post("/policies", &body).await;
    assert_eq!(response.status, 201, "{}", response.text());
    response
}
