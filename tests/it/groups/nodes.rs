//! Two nodes on one database.

use serde_json::json;

use super::{Grouping, service};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn switch_is_seen_by_another_node() {
    requires_postgres!();
    let app = service(Backend::Postgres).await;
    let other = app.second().await;
    let before = other.get("/tools").await.etag().to_owned();
    app.deactivate("a").await;
    eventually("the switch", || async { (!other.active("").await[0].1).then_some(()) }).await;
    assert_eq!(other.listed("").await, ["in_b", "in_both", "in_none"]);
    failed(&other.call("in_a", json!({})).await, "TOOL_UNAVAILABLE");
    let after = other.get("/tools").await.etag().to_owned();
    assert_ne!(after, before);
    assert_eq!(app.get("/tools").await.etag(), after);
    other.patch("/tool-groups", json!({"activate": ["a"]})).await.ok();
    eventually("the other switch", || async { app.active("").await[0].1.then_some(()) }).await;
    assert_eq!(succeeded(&app.call("in_a", json!({})).await), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_created_on_another_node_can_be_named_immediately() {
    requires_postgres!();
    let app = service(Backend::Postgres).await;
    let other = app.second().await;
    for round in 0..5 {
        let (group, tool) = (format!("g{round}"), format!("t{round}"));
        app.groups(&[&group]).await;
        other.grouped(&tool, &[&group]).await;
        app.deactivate(&group).await;
        app.patch(&format!("/tool-groups/{group}"), json!({"description": "x"})).await.ok();
        assert_eq!(other.post("/tool-groups", &json!({ "name": group })).await.status, 409);
        assert_eq!(other.delete(&format!("/tool-groups/{group}")).await.status, 204);
        app.patch("/tool-groups", json!({"activate": [group]})).await.problem(404);
        app.get(&format!("/tools/{tool}")).await.problem(404);
    }
}
