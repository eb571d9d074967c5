//! Changes of tools and rules hold on every node for each request that begins after the answer.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::pair;
use crate::groups::Grouping;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, HttpTool, bounded};

const ROUNDS: usize = 25;

/// Returns the node that makes a change in this round, and the other one.
fn roles<'a>((one, other): (&'a App, &'a App), round: usize) -> (&'a App, &'a App) {
    if round.is_multiple_of(2) { (one, other) } else { (other, one) }
}

async fn creates(node: &App, path: &str, body: serde_json::Value) {
    let response = node.post(path, &body).await;
    assert_eq!(response.status, 201, "{}", response.text());
}

async fn deletes(node: &App, path: &str) {
    let response = node.delete(path).await;
    assert_eq!(response.status, 204, "{}", response.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_tool_runs_on_every_node_and_a_deleted_one_on_none() {
    requires_postgres!();
    let (one, other) = pair().await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        let name = format!("t{round}");
        maker.echo_of(&name, json!({})).await;
        succeeded(&user.call(&name, json!({})).await);
        let changed = crate::support::app::echo_tool(&name, json!({"type": "object", "required": ["x"]}));
        maker.put(&format!("/tools/{name}"), &changed).await.ok();
        failed(&user.call(&name, json!({})).await, "TOOL_VALIDATION_ERROR");
        let presets = json!({"x": {"value": 1}});
        assert!(maker.put(&format!("/tools/{name}/presets"), &presets).await.status < 300);
        succeeded(&user.call(&name, json!({})).await);
        deletes(maker, &format!("/tools/{name}")).await;
        failed(&user.call(&name, json!({})).await, "TOOL_NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_tool_is_looked_up_before_its_call_is_rejected() {
    requires_postgres!();
    let (one, other) = pair().await;
    let mut database = PgConnection::connect(&one.database_url()).await.unwrap();
    // The other node cannot read tools before the end of this transaction, so the change is acknowledged without it.
    let mut lock = database.begin().await.unwrap();
    sqlx::query("LOCK TABLE tool_presets").execute(&mut *lock).await.unwrap();
    one.echo_of("late", json!({})).await;
    let read = async {
        // The other node reads the tools because of the signal, and because of the call.
        let sql = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'tool_presets'::regclass";
        bounded("both reads", async { while sqlx::query(sql).fetch_all(&mut *lock).await.unwrap().len() < 2 {} }).await;
        lock.commit().await.unwrap();
    };
    let (call, ()) = tokio::join!(other.call("late", json!({})), read);
    succeeded(&call);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_switch_of_a_group_holds_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.groups(&["g"]).await;
    one.grouped("t", &["g"]).await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        maker.patch("/tool-groups", json!({"deactivate": ["g"]})).await.ok();
        assert_eq!(user.call("t", json!({})).await["status"], "ERROR");
        maker.patch("/tool-groups", json!({"activate": ["g"]})).await.ok();
        succeeded(&user.call("t", json!({})).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_policy_holds_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        creates(maker, "/policies", json!({"name": "p", "when": "tool.name == 'echo'", "effect": "deny"})).await;
        failed(&user.call("echo", json!({})).await, "POLICY_DENIED");
        deletes(maker, "/policies/p").await;
        succeeded(&user.call("echo", json!({})).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_budget_holds_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        creates(maker, "/budgets", json!({"name": "b", "window_ms": 60_000, "max_calls": 0})).await;
        failed(&user.call("echo", json!({})).await, "BUDGET_EXCEEDED");
        deletes(maker, "/budgets/b").await;
        succeeded(&user.call("echo", json!({})).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_hook_is_invoked_by_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    let receiver = HttpTool::answering(Answer::json(&json!({"block": true}))).await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        let id = maker.hook("before_tool_call", &receiver, "/", json!({})).await;
        failed(&user.call("echo", json!({})).await, "TOOL_BLOCKED");
        deletes(maker, &format!("/hooks/{id}")).await;
        succeeded(&user.call("echo", json!({})).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_session_holds_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.groups(&["g"]).await;
    one.grouped("t", &["g"]).await;
    for round in 0..ROUNDS {
        let (maker, user) = roles((&one, &other), round);
        let id = format!("s{round}");
        creates(maker, "/sessions", json!({"id": id})).await;
        maker.patch(&format!("/tool-groups?session={id}"), json!({"deactivate": ["g"]})).await.ok();
        let call = user.post("/tool-calls", &json!({"name": "t", "session": id})).await.ok();
        assert_eq!(call["status"], "ERROR", "{call:#}");
        maker.patch(&format!("/tool-groups?session={id}"), json!({"activate": ["g"]})).await.ok();
        succeeded(&user.post("/tool-calls", &json!({"name": "t", "session": id})).await.ok());
    }
}
