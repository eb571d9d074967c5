//! Waiting for an accepted call with `?wait_ms=` and through its events.

use serde_json::json;

use crate::support::calls::{gated, has_ended, id_of};
use crate::support::shapes::succeeded;
use crate::support::sse::{count, statuses};
use crate::support::{App, Backend, HttpTool};

async fn service(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, gated("late").await);
    app.tool("job", &server, json!({"async": true})).await;
    (app, server)
}

on_both_databases!(
    async fn long_poll_is_answered_with_the_end(backend: Backend) {
        let (app, server) = service(backend).await;
        let id = app.accepted(json!({"name": "job"})).await;
        let path = format!("/tool-calls/{id}?wait_ms=19000");
        let polls: Vec<_> = (0..3)
            .map(|_| {
                let (client, path) = ((*app).clone(), path.clone());
                tokio::spawn(async move { client.get(&path).await.ok() })
            })
            .collect();
        server.received(1).await;
        // A poll with a shorter `wait_ms` returns while the others still wait.
        assert!(!has_ended(&app.get(&format!("/tool-calls/{id}?wait_ms=1")).await.ok()));
        assert!(!polls.iter().any(tokio::task::JoinHandle::is_finished));
        server.open();
        for poll in polls {
            assert_eq!(succeeded(&poll.await.unwrap()), "late");
        }
        // A poll of an ended call returns at once.
        assert_eq!(succeeded(&app.get(&path).await.ok()), "late");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn long_poll_of_an_unknown_call_is_rejected() {
    let (app, server) = service(Backend::Sqlite).await;
    let nobody = "00000000-0000-7000-8000-000000000000";
    app.get(&format!("/tool-calls/{nobody}?wait_ms=10")).await.problem(404);
    server.open();
    let id = app.sent(json!({"name": "job"})).await;
    for wait in ["soon", "-1", "1.5"] {
        app.get(&format!("/tool-calls/{id}?wait_ms={wait}")).await.client_problem();
    }
}

on_both_databases!(
    async fn event_request_follows_an_async_call_to_its_end(backend: Backend) {
        let (app, server) = service(backend).await;
        let mut stream = app.call_streamed(&json!({"name": "job"})).await;
        let mut events = stream.until(|event| event.is_status("DOING")).await;
        server.open();
        events.extend(stream.rest().await);
        let last = &events[events.len() - 1];
        assert_eq!((statuses(&events), last.event.as_str()), (vec!["WAIT", "DOING", "SUCCESS"], "batch"));
        assert_eq!((count(&events, "tool_result"), count(&events, "batch")), (1, 1));
        assert_eq!(succeeded(&last.data["results"][0]), "late");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_event_stream_does_not_stop_an_async_call() {
    let (app, server) = service(Backend::Sqlite).await;
    let mut stream = app.call_streamed(&json!({"name": "job"})).await;
    let events = stream.until(|event| event.is_status("DOING")).await;
    drop(stream);
    server.open();
    assert_eq!(succeeded(&app.ended(&id_of(&events[0].data)).await), "late");
}
