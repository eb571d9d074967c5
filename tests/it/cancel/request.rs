//! `POST /tool-calls/{id}/cancel` itself.

use serde_json::json;

use super::aborted;
use crate::support::calls::id_of;
use crate::support::sse::count;
use crate::support::{Answer, App, Backend, HttpTool};

on_both_databases!(
    async fn cancelling_twice_is_cancelling_once(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.tool("job", &server, json!({"async": true})).await;
        let id = app.accepted(json!({"name": "job"})).await;
        server.received(1).await;
        for _ in 0..3 {
            app.cancel(&id).await;
        }
        let call = app.ended(&id).await;
        aborted(&call);
        app.cancel(&id).await;
        assert_eq!(app.stored(&id).await, call);
        let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!(count(&events, "tool_result"), 1);
        assert_eq!(app.stats("job").await["failure_count"], 1);
    }
);

on_both_databases!(
    async fn ended_call_is_unchanged(backend: Backend) {
        let app = App::start(backend).await;
        for name in ["echo", "nobody"] {
            let call = app.call(name, json!({})).await;
            app.cancel(&id_of(&call)).await;
            assert_eq!(app.stored(&id_of(&call)).await, call);
        }
        assert_eq!(app.stats("echo").await["failure_count"], 0);
        let app = app.restart().await;
        let all = app.all_calls().await;
        app.cancel(&id_of(&all[0])).await;
        assert_eq!(app.all_calls().await, all);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unknown_call_is_a_404() {
    let app = App::on_sqlite().await;
    app.post_empty("/tool-calls/00000000-0000-7000-8000-000000000000/cancel").await.problem(404);
    app.post_empty("/tool-calls/call_abc/cancel").await.client_problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_object_equals_no_body() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::Never).await);
    app.tool("job", &server, json!({"async": true})).await;
    let id = app.accepted(json!({"name": "job"})).await;
    let answer = app.post(&format!("/tool-calls/{id}/cancel"), &json!({})).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    aborted(&app.ended(&id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_does_not_pause_a_tool() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::Never).await);
    app.tool("job", &server, json!({"async": true})).await;
    for cancelled in 1..=4 {
        let id = app.accepted(json!({"name": "job"})).await;
        server.received(cancelled).await;
        app.cancel(&id).await;
        aborted(&app.ended(&id).await);
    }
    assert_eq!(app.get("/tools/job").await.ok()["paused"], serde_json::Value::Null);
}
