//! The events of a running call.

use serde_json::json;

use crate::support::sse::statuses;
use crate::support::{Answer, App, Backend, Event, HttpTool};

/// Starts a call whose server has received the request and has not answered yet.
async fn running(backend: Backend) -> (App, HttpTool, String) {
    let app = App::with_egress(backend).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("late")))).await;
    app.http_tool("slow", &server).await;
    let client = (*app).clone();
    tokio::spawn(async move { client.call("slow", json!({})).await });
    server.received(1).await;
    let id = server.request().json()["id"].as_str().unwrap().to_owned();
    (app, server, format!("/tool-calls/{id}/events"))
}

on_both_databases!(
    async fn stream_of_a_running_call_has_its_past_and_future_and_ends(backend: Backend) {
        let (app, server, path) = running(backend).await;
        let mut stream = app.events(&path).await;
        let mut events = stream.until(|event| event.is_status("DOING")).await;
        assert_eq!(events[0].event, "tool_call");
        server.open();
        events.extend(stream.rest().await);
        assert_eq!(statuses(&events), ["WAIT", "DOING", "SUCCESS"]);
        assert_eq!(events.iter().filter(|event| event.is_result()).count(), 1);
    }
);

on_both_databases!(
    async fn all_subscribers_of_a_call_see_the_same(backend: Backend) {
        let (app, server, path) = running(backend).await;
        let mut early = app.events(&path).await;
        let mut events = early.until(|event| event.is_status("DOING")).await;
        let mut second = app.events(&path).await;
        let mut resumed = app.events_after(&path, &events[0].id).await;
        server.open();
        events.extend(early.rest().await);
        assert_eq!(second.rest().await, events);
        assert_eq!(resumed.rest().await, events[1..]);
        assert_eq!(app.events(&path).await.rest().await, events);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn leaving_subscriber_does_not_affect_the_call() {
    let (app, server, path) = running(Backend::Sqlite).await;
    drop(app.events(&path).await);
    let mut stream = app.events(&path).await;
    server.open();
    assert!(stream.rest().await.iter().any(Event::is_result));
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_stream_has_comments() {
    let app = App::on_sqlite().await;
    app.events("/events").await.comment().await;
}
