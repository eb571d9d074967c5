//! A tool that is paused or resumed on one node is paused or resumed on all nodes.

use serde_json::{Value, json};
use toolpost::config::Config;

use super::{answers, never_poll, pair, signalled};
use crate::support::shapes::failed;
use crate::support::{Answer, App, Backend, Client, HttpTool, Options, eventually};

/// Registers a tool that times out, and lets it time out until it is paused.
async fn pause(node: &App, server: &HttpTool) {
    node.tool("t", server, json!({"limits": {"timeout_ms": 50}})).await;
    for _ in 0..3 {
        failed(&node.call("t", json!({})).await, "TOOL_TIMEOUT");
    }
}

async fn is_paused(node: &Client) -> bool {
    node.get("/tools/t").await.ok()["paused"] != Value::Null
}

async fn becomes(node: &Client, paused: bool) {
    eventually("the pause or its end", || async { (is_paused(node).await == paused).then_some(()) }).await;
}

async fn resume(node: &App) {
    node.post_empty("/tools/t/resume").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_and_resume_apply_to_every_node() {
    requires_postgres!();
    let ((one, other), server) = (pair().await, HttpTool::answering(Answer::Never).await);
    let third = one.second().await;
    pause(&one, &server).await;
    for node in [&other, &third] {
        answers(node, "/tools/t", 200).await;
        becomes(node, true).await;
        failed(&node.call("t", json!({})).await, "TOOL_PAUSED");
    }
    assert_eq!(server.requests().len(), 3);
    let since = |tool: Value| tool["paused"].clone();
    assert_eq!(since(one.get("/tools/t").await.ok()), since(third.get("/tools/t").await.ok()));
    resume(&other).await;
    assert!(!is_paused(&other).await);
    becomes(&one, false).await;
    becomes(&third, false).await;
    failed(&one.call("t", json!({})).await, "TOOL_TIMEOUT");
    signalled(&one, "pauses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_counts_timeouts_separately() {
    requires_postgres!();
    let ((one, other), server) = (pair().await, HttpTool::answering(Answer::Never).await);
    one.tool("t", &server, json!({"limits": {"timeout_ms": 50}})).await;
    answers(&other, "/tools/t", 200).await;
    for node in [&one, &other, &one, &other] {
        failed(&node.call("t", json!({})).await, "TOOL_TIMEOUT");
    }
    assert!(!is_paused(&one).await && !is_paused(&other).await);
}

on_both_databases!(
    async fn pause_outlives_a_restart_until_it_is_resumed(backend: Backend) {
        let options = Options { egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let (app, server) = (App::start_with(backend, options).await, HttpTool::answering(Answer::Never).await);
        pause(&app, &server).await;
        eventually("the stored pause", || async {
            let stored = app.store().tool_pauses(toolpost::domain::Time(0)).await.unwrap();
            (!stored.is_empty()).then_some(())
        })
        .await;
        let app = app.restart().await;
        failed(&app.call("t", json!({})).await, "TOOL_PAUSED");
        resume(&app).await;
        let app = app.restart().await;
        assert!(!is_paused(&app).await);
    }
);

fn short_pause(config: &mut Config) {
    never_poll(config);
    config.pause.cooldown_ms = 100;
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_ends_on_every_node() {
    requires_postgres!();
    let egress_allow = vec!["127.0.0.1".into()];
    let options = Options { egress_allow, configure: Some(short_pause), ..Options::default() };
    let one = App::start_with(Backend::Postgres, options).await;
    let (other, server) = (one.second().await, HttpTool::answering(Answer::Never).await);
    pause(&one, &server).await;
    answers(&other, "/tools/t", 200).await;
    signalled(&other, "pauses").await;
    becomes(&one, false).await;
    becomes(&other, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_without_a_signal_is_found_by_a_poll() {
    requires_postgres!();
    let options = Options {
        egress_allow: vec!["127.0.0.1".into()],
        configure: Some(|config| config.node.heartbeat_ms = 100),
        ..Options::default()
    };
    let node = App::start_with(Backend::Postgres, options).await;
    node.echo_of("t", json!({})).await;
    // This store has no node, so its signals wait until it is closed.
    let store = toolpost::store::Store::open(&node.database_url()).await.unwrap();
    let until = toolpost::domain::Time(i64::MAX / 2);
    let paused = toolpost::domain::Paused { since: toolpost::domain::Time(0), until, timeouts: 3 };
    let pause = toolpost::store::pauses::StoredPause { tenant: store.tenant().clone(), tool: "t".into(), paused };
    store.pause_tool(&pause).await.unwrap();
    becomes(&node, true).await;
    assert_eq!(super::received(&node, "pauses").await, 0.0);
}
