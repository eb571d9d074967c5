//! Budgets: what they count, when they refuse, and that nodes share them exactly.

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::{Client, Response};

mod counting;
#[cfg(feature = "fault-points")]
mod kills;
mod routes;
mod sharing;

/// A day, in milliseconds.
const DAY: u64 = 86_400_000;

/// Creates a budget with a window of a day.
async fn budget(operator: &Client, name: &str, more: Value) -> Response {
    let body = with(json!({"name": name, "window_ms": DAY}), more);
    let response = operator.post("/budgets", &body).await;
    assert_eq!(response.status, 201, "{}", response.text());
    response
}

/// Returns `used`, `reserved` and `limit` of a budget.
async fn usage(operator: &Client, name: &str) -> Value {
    let budget = operator.get(&format!("/budgets/{name}")).await.ok();
    json!([budget["used"], budget["reserved"], budget["limit"]])
}
