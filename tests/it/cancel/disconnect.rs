//! `"on_disconnect": "cancel"`: a disconnect of the caller cancels its calls.

use serde_json::{Value, json};

use super::aborted;
use crate::support::calls::{gated, id_of};
use crate::support::shapes::{points_at, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, eventually};

/// Disconnects a caller once the given number of its calls have reached the server.
async fn gone(app: &App, server: &HttpTool, running: usize, body: Value) {
    let caller = app.posted(body);
    server.received(running).await;
    caller.abort();
    assert!(caller.await.is_err());
}

on_both_databases!(
    async fn disconnect_cancels_a_call_that_requests_it(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.http_tool("act", &server).await;
        gone(&app, &server, 1, json!({"name": "act", "on_disconnect": "cancel"})).await;
        server.closed().await;
        aborted(&app.ended(&app.only("act").await).await);
        assert_eq!(app.stats("act").await["failures_by_code"], json!({"CANCELLED": 1}));
    }
);

on_both_databases!(
    async fn closed_event_stream_cancels_a_call_that_requests_it(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.http_tool("act", &server).await;
        let mut stream = app.call_streamed(&json!({"name": "act", "on_disconnect": "cancel"})).await;
        let events = stream.until(|event| event.is_status("DOING")).await;
        server.received(1).await;
        drop(stream);
        server.closed().await;
        aborted(&app.ended(&id_of(&events[0].data)).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_cancels_running_and_waiting_calls_of_a_batch() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::Never).await);
    app.http_tool("act", &server).await;
    let calls = json!([{"name": "act", "id": "a"}, {"name": "act", "id": "b"}]);
    gone(&app, &server, 1, json!({"calls": calls, "mode": "serial", "on_disconnect": "cancel"})).await;
    server.closed().await;
    let calls = eventually("both calls to end", || async {
        let calls = app.all_calls().await;
        calls.iter().all(crate::support::calls::has_ended).then_some(calls)
    })
    .await;
    assert_eq!((calls.len(), server.requests().len()), (2, 1));
    calls.iter().for_each(aborted);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_continues_without_the_option() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.http_tool("act", &server).await;
    gone(&app, &server, 1, json!({"name": "act"})).await;
    let id = app.only("act").await;
    server.open();
    assert_eq!(succeeded(&app.ended(&id).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_after_the_response_cancels_nothing() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.tool("job", &server, json!({"async": true})).await;
    let accepted = app.accepted(json!({"name": "job", "on_disconnect": "cancel"})).await;
    let waited = app.accepted(json!({"name": "job", "wait": 20, "on_disconnect": "cancel"})).await;
    server.received(2).await;
    server.open();
    for id in [accepted, waited] {
        assert_eq!(succeeded(&app.ended(&id).await), "done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_of_a_watcher_cancels_nothing() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.http_tool("act", &server).await;
    let caller = app.posted(json!({"name": "act", "on_disconnect": "cancel"}));
    server.received(1).await;
    let mut stream = app.events(&format!("/tool-calls/{}/events", app.only("act").await)).await;
    stream.until(|event| event.is_status("DOING")).await;
    drop(stream);
    server.open();
    assert_eq!(succeeded(&caller.await.unwrap().ok()), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_disconnect_option_is_rejected() {
    let app = App::on_sqlite().await;
    for wish in [json!("stop"), json!(true)] {
        let body = json!({"name": "echo", "on_disconnect": wish});
        points_at(&app.post("/tool-calls", &body).await.problem(422), "/on_disconnect");
    }
    succeeded(&app.call_with(json!({"name": "echo", "on_disconnect": "cancel"})).await);
}
