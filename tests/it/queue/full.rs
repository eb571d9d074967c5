//! A full queue rejects calls before acceptance.

use serde_json::json;

use crate::support::calls::{gated, id_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, HttpTool, Response, eventually};

/// Starts a service whose queue holds two calls and is full.
async fn full(backend: Backend) -> (App, HttpTool) {
    let app = App::tuned(backend, |config| config.queue.max_length = 2).await;
    let server = gated("done").await;
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    for _ in 0..2 {
        app.accepted(json!({"name": "job"})).await;
    }
    (app, server)
}

/// Checks for a 503 with `retry-after` and nothing else.
fn refused(answer: Response) {
    let after: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&after) && answer.header("location").is_empty());
    assert_eq!(answer.problem(503)["code"], "OVERLOADED");
}

on_both_databases!(
    async fn full_queue_accepts_nothing(backend: Backend) {
        let (app, server) = full(backend).await;
        let (before, stats) = (app.all_calls().await.len(), app.stats("job").await);
        refused(app.post("/tool-calls", &json!({"name": "job"})).await);
        refused(app.post("/tool-calls", &json!({"calls": [{"name": "job"}, {"name": "job"}]})).await);
        refused(app.post("/tool-calls", &json!({"name": "job", "priority": 100})).await);
        let events = [("accept", "text/event-stream")];
        refused(app.post_with("/tool-calls", &events, &json!({"name": "job"})).await);
        assert_eq!((app.all_calls().await.len(), before), (2, 2));
        assert_eq!(app.stats("job").await, stats);
        server.open();
        let id = eventually("room in the queue", || async {
            let answer = app.post("/tool-calls", &json!({"name": "job"})).await;
            (answer.status != 503).then(|| id_of(&answer.json))
        })
        .await;
        assert_eq!(succeeded(&app.ended(&id).await), "done");
        assert_eq!(server.requests().len(), 3);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_does_not_fit_is_rejected_completely() {
    let app = App::tuned(Backend::Sqlite, |config| config.queue.max_length = 2).await;
    let server = gated("done").await;
    app.tool("job", &server, json!({"async": true})).await;
    let batch = json!({"calls": [{"name": "job"}, {"name": "job"}, {"name": "job"}], "mode": "parallel"});
    refused(app.post("/tool-calls", &batch).await);
    assert_eq!((app.all_calls().await.len(), server.requests().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queue_does_not_block_waiting_callers() {
    let (app, _server) = full(Backend::Sqlite).await;
    succeeded(&app.call("echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_request_can_be_repeated_with_the_same_key() {
    let (app, server) = full(Backend::Sqlite).await;
    let key = [("idempotency-key", "k")];
    refused(app.post_with("/tool-calls", &key, &json!({"name": "job"})).await);
    server.open();
    let id = eventually("room in the queue", || async {
        let answer = app.post_with("/tool-calls", &key, &json!({"name": "job"})).await;
        (answer.status != 503).then(|| id_of(&answer.json))
    })
    .await;
    assert_eq!(succeeded(&app.ended(&id).await), "done");
}
