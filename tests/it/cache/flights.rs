//! Equal concurrent calls: one call runs, and the others get its result.

use serde_json::{Value, json};

use super::{app_with, call, global};
use crate::support::calls::{assert_counts, gated, has_ended};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, eventually};

fn body(more: Value) -> Value {
    crate::support::calls::with(json!({"name": "t", "arguments": {"n": 1}}), more)
}

/// Waits until exactly `count` calls exist.
async fn there_are(app: &App, count: usize) -> Vec<Value> {
    eventually("the calls to be there", || async { Some(app.all_calls().await).filter(|calls| calls.len() == count) })
        .await
}

/// Returns the ids of the running call and of the call that waits for it.
async fn leader_and_follower(app: &App) -> (String, String) {
    let calls = there_are(app, 2).await;
    let id = |status: &str| {
        let found = calls.iter().find(|call| call["status"] == status);
        found.unwrap_or_else(|| panic!("no {status} in {calls:#?}"))["id"].as_str().unwrap().to_owned()
    };
    (id("DOING"), id("WAIT"))
}

on_both_databases!(
    async fn ten_equal_calls_at_once_are_one_run(backend: Backend) {
        let server = gated("done").await;
        let app = app_with(backend, &server).await;
        let calls: Vec<_> = (0..10).map(|_| app.posted(body(json!({})))).collect();
        there_are(&app, 10).await;
        server.open();
        let mut cached = 0;
        for call in calls {
            let call = call.await.unwrap().ok();
            assert_eq!(succeeded(&call), "done");
            cached += usize::from(call["cached"] == true);
        }
        assert_eq!((server.requests().len(), cached), (1, 9));
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "cache_hit_count": 9, "rejected_count": 0}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn equal_calls_of_a_batch_share_one_run() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = app_with(Backend::Sqlite, &server).await;
    let results = app.batch(json!({"calls": vec![body(json!({})); 10], "mode": "parallel"})).await;
    assert!(results.iter().all(|call| succeeded(call) == "done"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_leader_lets_each_follower_run() {
    let runs = std::sync::atomic::AtomicUsize::new(0);
    let server = HttpTool::start("127.0.0.1", move |_| {
        let then = match runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Answer::status(400, "text/plain", "broken"),
            _ => Answer::text("good"),
        };
        Answer::AfterGate(Box::new(then))
    })
    .await;
    let app = app_with(Backend::Sqlite, &server).await;
    let calls: Vec<_> = (0..5).map(|_| app.posted(body(json!({})))).collect();
    there_are(&app, 5).await;
    server.open();
    let mut ends = Vec::new();
    for call in calls {
        let call = call.await.unwrap().ok();
        assert_eq!(call["cached"], false);
        ends.push(call["status"].as_str().unwrap().to_owned());
    }
    ends.sort();
    assert_eq!(ends, ["ERROR", "SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS"]);
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_follower_is_cancelled_alone() {
    let server = gated("done").await;
    let app = app_with(Backend::Sqlite, &server).await;
    let calls = [app.posted(body(json!({}))), app.posted(body(json!({})))];
    let (leader, follower) = leader_and_follower(&app).await;
    app.cancel(&follower).await;
    failed(&app.ended(&follower).await, "CANCELLED");
    server.open();
    assert_eq!(succeeded(&app.ended(&leader).await), "done");
    for call in calls {
        call.await.unwrap().ok();
    }
    assert_counts(&app.stats("t").await, json!({"rejected_by_code": {"CANCELLED": 1}, "cache_hit_count": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_leader_lets_the_follower_run() {
    let server = gated("done").await;
    let app = app_with(Backend::Sqlite, &server).await;
    let calls = [app.posted(body(json!({}))), app.posted(body(json!({})))];
    let (leader, follower) = leader_and_follower(&app).await;
    server.received(1).await;
    app.cancel(&leader).await;
    failed(&app.ended(&leader).await, "CANCELLED");
    server.received(2).await;
    server.open();
    let follower = app.ended(&follower).await;
    assert_eq!((succeeded(&follower), &follower["cached"]), ("done", &json!(false)));
    for call in calls {
        call.await.unwrap().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_waits_within_its_own_timeouts() {
    let server = gated("done").await;
    let app = app_with(Backend::Sqlite, &server).await;
    let leader = app.posted(body(json!({})));
    server.received(1).await;
    for (limits, clock) in [
        (json!({"timeout_ms": 30}), "timeout_ms"),
        (json!({"timeout_ms": 60_000, "queue_timeout_ms": 30}), "queue_timeout_ms"),
    ] {
        let late = call(&app, json!({"limits": limits})).await;
        failed(&late, "TOOL_TIMEOUT");
        assert_eq!(late["error"]["details"]["clock"], clock);
    }
    server.open();
    succeeded(&leader.await.unwrap().ok());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_follower_takes_no_slot() {
    let (server, blocker) = (gated("done").await, gated("blocked").await);
    let app = App::tuned(Backend::Sqlite, |config| config.queue.max_running = 1).await;
    app.tool("t", &server, global()).await;
    app.http_tool("blocker", &blocker).await;
    server.open();
    let first = app.accepted(json!({"name": "blocker", "wait": "accepted"})).await;
    blocker.received(1).await;
    let mut ids = Vec::new();
    for priority in [0, 5, 9] {
        ids.push(app.accepted(body(json!({"wait": "accepted", "priority": priority}))).await);
    }
    blocker.open();
    for id in &ids {
        assert_eq!(succeeded(&app.ended(id).await), "done");
    }
    assert!(has_ended(&app.ended(&first).await));
    assert_eq!(server.requests().len(), 1);
}
