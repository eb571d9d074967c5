//! Changes of tools, groups, hooks and keys.

use serde_json::json;

use super::{answers, pair, received, signalled};
use crate::groups::Grouping;
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, HttpTool, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn tool_is_registered_replaced_and_deleted_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    let third = one.second().await;
    one.echo_of("t", json!({})).await;
    for node in [&other, &third] {
        answers(node, "/tools/t", 200).await;
        succeeded(&node.call("t", json!({})).await);
    }
    let changed = crate::support::app::echo_tool("t", json!({"type": "object", "required": ["x"]}));
    third.put("/tools/t", &changed).await.ok();
    for node in [&one, &other] {
        eventually("the change", || async {
            let tool = node.get("/tools/t").await.ok();
            (tool["input_schema"]["required"] == json!(["x"])).then_some(())
        })
        .await;
    }
    assert_eq!(other.delete("/tools/t").await.status, 204);
    for node in [&one, &third] {
        answers(node, "/tools/t", 404).await;
    }
    signalled(&one, "tools").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_of_another_tenant_is_registered_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    let (operator, _) = one.key(json!({"scopes": ["admin"]})).await;
    let (key, _) = one.with_key(&operator).key(json!({"scopes": ["admin"], "tenant": "acme"})).await;
    let (mine, theirs) = (one.with_key(&key), other.with_key(&key));
    assert_eq!(theirs.get("/tools/t").await.status, 404);
    mine.echo_of("t", json!({})).await;
    answers(&theirs, "/tools/t", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_is_switched_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.groups(&["g"]).await;
    one.grouped("t", &["g"]).await;
    answers(&other, "/tools/t", 200).await;
    let is_active = |node: &App, wanted: bool| {
        let groups = node.request(reqwest::Method::GET, "/tool-groups");
        async move {
            let groups = crate::support::client::send(groups).await.ok();
            let group = groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "g").cloned();
            (group.unwrap()["active"] == wanted).then_some(())
        }
    };
    one.patch("/tool-groups", json!({"deactivate": ["g"]})).await.ok();
    eventually("the switch", || is_active(&other, false)).await;
    other.patch("/tool-groups", json!({"activate": ["g"]})).await.ok();
    eventually("the other switch", || is_active(&one, true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_is_invoked_by_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    let receiver = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
    let hook = json!({"event": "before_tool_call", "url": receiver.url("/hook")});
    assert_eq!(one.post("/hooks", &hook).await.status, 201);
    eventually("the hook", || async {
        succeeded(&other.call("echo", json!({})).await);
        (!receiver.requests().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_key_closes_every_node_and_revoked_key_ends_its_streams() {
    requires_postgres!();
    let (one, other) = pair().await;
    let (operator, _) = one.key(json!({"scopes": ["admin"]})).await;
    answers(&other, "/tools", 401).await;
    let operator = one.with_key(&operator);
    let (key, id) = operator.key(json!({"scopes": ["read"]})).await;
    let mut stream = other.with_key(&key).events("/events").await;
    assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
    stream.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_signals_are_ignored() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.echo_of("t", json!({})).await;
    answers(&other, "/tools/t", 200).await;
    other.key(json!({"scopes": ["admin"]})).await;
    // The key closes the service, so only its signal can be observed from now on.
    answers(&one, "/tools", 401).await;
    let counts = |node: &App| {
        let counts = node.store().signals().counts().received().collect::<Vec<_>>();
        counts.into_iter().filter(|(kind, _)| ["tools", "keys"].contains(kind)).collect::<Vec<_>>()
    };
    // Notifications arrive in the order in which they were sent, so the node has received its own before.
    assert_eq!(counts(&one), [("tools", 0), ("keys", 1)]);
    assert_eq!(counts(&other), [("tools", 1), ("keys", 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_changes_are_combined_to_few_signals() {
    requires_postgres!();
    let (one, other) = pair().await;
    let tools: Vec<_> =
        (0..32).map(|n| crate::support::app::echo_tool(&format!("t{n}"), json!({"type": "object"}))).collect();
    futures_util::future::join_all(tools.iter().map(|tool| one.post("/tools", tool))).await;
    answers(&other, "/tools/t31", 200).await;
    eventually("the last signal", || async {
        let sent = super::count(&one, "toolpost_signals_sent_total{kind=\"tools\"}").await;
        (received(&other, "tools").await == sent).then_some(())
    })
    .await;
}
