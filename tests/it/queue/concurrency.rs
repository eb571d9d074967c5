//! `max_concurrency` of a tool, `max_running` of a node.

use serde_json::{Value, json};

use crate::support::calls::{gated, id_of};
use crate::support::shapes::{points_at, succeeded};
use crate::support::{App, Backend, HttpTool, eventually};

/// Returns the phases of all calls of a tool, sorted.
async fn phases(app: &App, name: &str) -> Vec<String> {
    let page = app.get(&format!("/tool-calls?name={name}")).await.ok();
    let calls = page["tool_calls"].as_array().unwrap();
    let mut phases: Vec<String> = calls.iter().map(|call| call["phase"].as_str().unwrap().to_owned()).collect();
    phases.sort();
    phases
}

/// Waits until `running` calls of the tool run and `queued` calls wait.
async fn settled_down(app: &App, name: &str, running: usize, queued: usize) {
    let mut expected = vec!["queued"; queued];
    expected.extend(vec!["running"; running]);
    eventually("slots to be taken", || async { (phases(app, name).await == expected).then_some(()) }).await;
}

async fn end_all(app: &App, server: &HttpTool) {
    server.open();
    for call in app.all_calls().await {
        assert_eq!(succeeded(&app.ended(&id_of(&call)).await), "done");
    }
}

on_both_databases!(
    async fn tool_never_exceeds_its_concurrency(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 2}})).await;
        for _ in 0..6 {
            app.accepted(json!({"name": "job"})).await;
        }
        server.received(2).await;
        settled_down(&app, "job", 2, 4).await;
        assert_eq!(server.requests().len(), 2);
        end_all(&app, &server).await;
        assert_eq!((server.requests().len(), server.max_running()), (6, 2));
    }
);

on_both_databases!(
    async fn waiting_callers_respect_the_concurrency(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("act", &server, json!({"limits": {"max_concurrency": 1}})).await;
        let alone = app.posted(json!({"name": "act"}));
        let calls: Vec<Value> = (0..3).map(|_| json!({"name": "act"})).collect();
        let batch = app.posted(json!({"calls": calls, "mode": "parallel"}));
        let left = app.accepted(json!({"name": "act", "wait": "accepted"})).await;
        settled_down(&app, "act", 1, 4).await;
        server.open();
        assert_eq!(succeeded(&alone.await.unwrap().ok()), "done");
        for call in batch.await.unwrap().ok()["results"].as_array().unwrap() {
            assert_eq!(succeeded(call), "done");
        }
        succeeded(&app.ended(&left).await);
        assert_eq!((server.requests().len(), server.max_running()), (5, 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn tools_do_not_share_their_slots() {
    let (app, server, other) = (App::with_egress(Backend::Sqlite).await, gated("done").await, gated("done").await);
    let one = json!({"async": true, "limits": {"max_concurrency": 1}});
    app.tool("job", &server, one.clone()).await;
    app.tool("other", &other, one).await;
    for name in ["job", "job", "other"] {
        app.accepted(json!({"name": name})).await;
    }
    other.received(1).await;
    settled_down(&app, "job", 1, 1).await;
    other.open();
    end_all(&app, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_can_lower_its_concurrency_but_not_raise_it() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    for _ in 0..3 {
        app.accepted(json!({"name": "job", "limits": {"max_concurrency": 3}})).await;
    }
    settled_down(&app, "job", 1, 2).await;
    end_all(&app, &server).await;
    assert_eq!(server.max_running(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_is_released_however_its_call_ended() {
    let (app, server) =
        (App::with_egress(Backend::Sqlite).await, HttpTool::answering(crate::support::Answer::Never).await);
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1, "timeout_ms": 19_000}})).await;
    let cancelled = app.accepted(json!({"name": "job"})).await;
    let timed_out = app.accepted(json!({"name": "job", "limits": {"timeout_ms": 300}})).await;
    let last = app.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    app.cancel(&cancelled).await;
    app.ended(&timed_out).await;
    server.received(3).await;
    app.cancel(&last).await;
    app.ended(&last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_limits_calls_without_a_waiting_caller() {
    let app = App::tuned(Backend::Sqlite, |config| config.queue.max_running = 2).await;
    let server = gated("done").await;
    app.tool("job", &server, json!({"async": true})).await;
    for _ in 0..5 {
        app.accepted(json!({"name": "job"})).await;
    }
    settled_down(&app, "job", 2, 3).await;
    end_all(&app, &server).await;
    assert_eq!((server.requests().len(), server.max_running()), (5, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_slots_are_rejected() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = gated("done").await;
    let definition = crate::support::calls::tool("job", &server, json!({"limits": {"max_concurrency": 0}}));
    points_at(&app.post("/tools", &definition).await.problem(422), "/limits/max_concurrency");
}
