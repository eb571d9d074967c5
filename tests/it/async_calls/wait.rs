//! The member `wait`, which says how long the caller waits.

use serde_json::{Value, json};

use crate::support::calls::{gated, has_ended};
use crate::support::shapes::{points_at, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

/// Starts a service with the async tool `job` and the tool `act`, both on one server.
async fn service(backend: Backend, server: &HttpTool) -> App {
    let app = App::with_egress(backend).await;
    app.tool("job", server, json!({"async": true})).await;
    app.tool("act", server, json!({})).await;
    app
}

on_both_databases!(
    async fn caller_can_wait_for_the_result_of_an_async_tool(backend: Backend) {
        let server = HttpTool::answering(Answer::text("done")).await;
        let app = service(backend, &server).await;
        let call = app.call_with(json!({"name": "job", "wait": "result"})).await;
        assert_eq!(succeeded(&call), "done");
    }
);

on_both_databases!(
    async fn caller_can_submit_any_tool_without_waiting(backend: Backend) {
        let server = gated("late").await;
        let app = service(backend, &server).await;
        for (name, wait) in [("act", json!("accepted")), ("act", json!(30)), ("act", json!(0)), ("job", json!(30))] {
            let id = app.accepted(json!({"name": name, "wait": wait})).await;
            assert!(!has_ended(&app.stored(&id).await), "{name} {wait}");
        }
        server.open();
        for call in app.all_calls().await {
            assert_eq!(succeeded(&app.ended(call["id"].as_str().unwrap()).await), "late");
        }
        assert_eq!(server.requests().len(), 4);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn timed_wait_returns_what_ended_within_it() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = service(Backend::Sqlite, &server).await;
    for name in ["job", "act"] {
        let answer = app.post("/tool-calls", &json!({"name": name, "wait": 19_000})).await;
        assert!(answer.header("location").is_empty());
        assert_eq!(succeeded(&answer.ok()), "done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_the_result_blocks_until_the_end() {
    let server = gated("late").await;
    let app = service(Backend::Sqlite, &server).await;
    let waiting = app.posted(json!({"name": "job", "wait": "result"}));
    server.received(1).await;
    // A caller that does not wait is answered, while the waiting caller still is not.
    app.accepted(json!({"name": "job"})).await;
    assert!(!waiting.is_finished());
    server.open();
    assert_eq!(succeeded(&waiting.await.unwrap().ok()), "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_wait_is_rejected_and_nothing_runs() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = service(Backend::Sqlite, &server).await;
    for wait in [json!("later"), json!(-1), json!(1.5), json!("50"), json!({}), json!([1]), json!(true)] {
        let problem = app.post("/tool-calls", &json!({"name": "job", "wait": wait})).await.problem(422);
        points_at(&problem, "/wait");
    }
    assert_eq!((app.all_calls().await, server.requests().len()), (Vec::<Value>::new(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_wait_uses_the_default_of_the_tool() {
    let server = gated("late").await;
    let app = service(Backend::Sqlite, &server).await;
    app.accepted(json!({"name": "job", "wait": null})).await;
    server.open();
    assert_eq!(succeeded(&app.call_with(json!({"name": "act", "wait": null})).await), "late");
}
