//! Hooks are stored in the database: every node and every run applies them.

use serde_json::json;

use super::saying;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn new_hook_is_invoked_by_all_nodes_and_a_deleted_one_by_none() {
    requires_postgres!();
    let one = App::with_egress(Backend::Postgres).await;
    let two = one.second().await;
    let receiver = saying(json!({"block": true})).await;
    let id = one.hook("before_tool_call", &receiver, "/", json!({})).await;
    failed(&one.call("echo", json!({})).await, "TOOL_BLOCKED");
    let seen = || async { (two.get(&format!("/hooks/{id}")).await.status == 200).then_some(()) };
    eventually("the other node to see the hook", seen).await;
    failed(&two.call("echo", json!({})).await, "TOOL_BLOCKED");
    assert_eq!(two.delete(&format!("/hooks/{id}")).await.status, 204);
    succeeded(&two.call("echo", json!({})).await);
    let gone = || async { (one.call("echo", json!({})).await["status"] == "SUCCESS").then_some(()) };
    eventually("the first node to see that it is gone", gone).await;
}

on_both_databases!(
    async fn hooks_keep_order_and_secrets_across_a_restart(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = saying(json!({"arguments": {"by": "hook"}})).await;
        let secret = json!({"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="});
        app.hook("before_tool_call", &receiver, "/a", secret).await;
        app.hook("before_tool_call", &receiver, "/b", json!({"priority": 3, "match": {"tools": ["echo"]}})).await;
        let before = app.get("/hooks").await.ok();
        let app = app.restart().await;
        assert_eq!(app.get("/hooks").await.ok(), before);
        assert_eq!(succeeded(&app.call("echo", json!({})).await), r#"{"by":"hook"}"#);
        let targets: Vec<String> = receiver.requests().into_iter().map(|request| request.target).collect();
        assert_eq!(targets, ["/b", "/a"]);
    }
);
