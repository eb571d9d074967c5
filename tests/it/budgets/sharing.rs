//! Budgets of several nodes, and after restarts.

use serde_json::{Value, json};

use super::{budget, usage};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, eventually};

/// Starts two nodes that know a budget.
async fn two(more: Value) -> (App, App) {
    let one = App::start(Backend::Postgres).await;
    let other = one.second().await;
    budget(&one, "b", more).await;
    eventually("the budget", async || (other.get("/budgets/b").await.status == 200).then_some(())).await;
    (one, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_at_two_nodes_use_exactly_the_budget() {
    requires_postgres!();
    let (one, other) = two(json!({"max_calls": 300})).await;
    let node = |n: usize| if n.is_multiple_of(2) { &one } else { &other };
    let calls: Vec<_> = (0..400).map(|n| node(n).posted(json!({"name": "echo", "arguments": {"n": n}}))).collect();
    let mut run = 0;
    for call in calls {
        let call = call.await.unwrap().json;
        match call["status"] == "SUCCESS" {
            true => run += 1,
            false => drop(failed(&call, "BUDGET_EXCEEDED")),
        }
    }
    assert_eq!((run, usage(&one, "b").await), (300, json!([300, 0, 300])));
}

#[tokio::test(flavor = "multi_thread")]
async fn node_uses_the_unneeded_share_of_another_one() {
    requires_postgres!();
    let (one, other) = two(json!({"max_calls": 100})).await;
    // This node is prepared for further calls.
    succeeded(&one.call("echo", json!({})).await);
    for n in 1..100 {
        let call = other.call("echo", json!({"n": n})).await;
        assert_eq!(call["status"], "SUCCESS", "call {n}: {call:#}");
    }
    failed(&other.call("echo", json!({})).await, "BUDGET_EXCEEDED");
    failed(&one.call("echo", json!({})).await, "BUDGET_EXCEEDED");
    assert_eq!(usage(&other, "b").await, json!([100, 0, 100]));
}

on_both_databases!(
    async fn use_survives_a_restart_and_the_rest_stays_available(backend: Backend) {
        let app = App::start(backend).await;
        budget(&app, "b", json!({"max_calls": 40})).await;
        for n in 0..5 {
            succeeded(&app.call("echo", json!({"n": n})).await);
        }
        let app = app.restart().await;
        assert_eq!(usage(&app, "b").await, json!([5, 0, 40]));
        for n in 5..40 {
            succeeded(&app.call("echo", json!({"n": n})).await);
        }
        failed(&app.call("echo", json!({})).await, "BUDGET_EXCEEDED");
    }
);
