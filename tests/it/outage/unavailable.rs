//! One caller at a time: 503 after its patience, 200 if the database recovers in time, and no call runs unrecorded.

use serde_json::json;

use crate::outage::{readyz, service, unavailable, with};
use crate::support::http_tool::ReceivedRequest;
use crate::support::postgres::PgCluster;
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::statuses;
use crate::support::{Answer, HttpTool, Options, eventually};

fn options(patience_ms: u64) -> Options {
    Options { patience_ms: Some(patience_ms), egress_allow: vec!["127.0.0.1".into()], ..Options::default() }
}

/// Returns `true` if the server received the call with this `call_id`.
fn has_run(server: &HttpTool, call_id: &str) -> bool {
    server.requests().iter().any(|request: &ReceivedRequest| request.json()["call_id"] == call_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn unaccepted_call_reaches_no_writing_tool() {
    requires_postgres!();
    let (app, cluster) = service(options(300)).await;
    let server = HttpTool::answering(Answer::text("done")).await;
    app.http_tool("act", &server).await;
    succeeded(&app.call_with(json!({"name": "act", "id": "before"})).await);
    readyz(&app, 200).await;

    with(&cluster, PgCluster::stop_immediate).await;
    readyz(&app, 503).await;
    assert_eq!(app.get("/healthz").await.status, 200);
    for name in ["act", "echo"] {
        let body = json!({"name": name, "id": "single"});
        assert_eq!(unavailable(app.post("/tool-calls", &body).await), None, "it was not accepted");
    }
    for mode in ["auto", "parallel", "serial"] {
        let calls = ["1", "2"].map(|id| json!({"name": "act", "id": format!("{mode}{id}")}));
        let location = unavailable(app.post("/tool-calls", &json!({"calls": calls, "mode": mode})).await);
        assert!(location.is_some(), "a batch says where to look");
    }
    app.get("/tool-calls").await.problem(503);

    with(&cluster, PgCluster::start_again).await;
    readyz(&app, 200).await;
    succeeded(&app.call_with(json!({"name": "act", "id": "after"})).await);
    let ended = eventually("the end of every call", || async {
        let calls = app.get("/tool-calls?name=act").await.ok()["tool_calls"].as_array().unwrap().clone();
        (calls.len() == 9 && calls.iter().all(|call| !call["ended_at"].is_null())).then_some(calls)
    })
    .await;
    for call in ended {
        let id = call["call_id"].as_str().unwrap();
        if ["before", "after"].contains(&id) {
            continue;
        }
        failed(&call, "OVERLOADED");
        assert!(call["started_at"].is_null() && !has_run(&server, id), "{id}");
    }
    assert_eq!(server.requests().len(), 2);
    let stats = app.stats("act").await;
    assert_eq!((&stats["success_count"], &stats["rejected_count"]), (&json!(2), &json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_end_has_a_location() {
    requires_postgres!();
    let (app, cluster) = service(options(300)).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
    app.http_tool("act", &server).await;
    let one = tokio::spawn({
        let client = (*app).clone();
        async move { client.post("/tool-calls", &json!({"name": "act"})).await }
    });
    let batch = tokio::spawn({
        let client = (*app).clone();
        // The first call has ended when the second cannot be accepted.
        let calls = json!([{"name": "calculate", "arguments": {"expression": "1"}}, {"name": "act"}, {"name": "act"}]);
        async move { client.post("/tool-calls", &json!({"calls": calls, "mode": "serial"})).await }
    });
    server.received(2).await;
    with(&cluster, PgCluster::stop_immediate).await;
    readyz(&app, 503).await;
    server.open();
    let location = unavailable(one.await.unwrap()).expect("a Location");
    let batch_location = unavailable(batch.await.unwrap()).expect("a Location");

    with(&cluster, PgCluster::start_again).await;
    readyz(&app, 200).await;
    eventually("the end of the call", || async {
        (app.get(&location).await.ok()["status"] == "SUCCESS").then_some(())
    })
    .await;
    let calls = eventually("the end of the batch", || async {
        let calls = app.get(&batch_location).await.ok()["tool_calls"].as_array().unwrap().clone();
        (calls.len() == 3 && calls.iter().all(|call| !call["ended_at"].is_null())).then_some(calls)
    })
    .await;
    let ran = calls.iter().filter(|call| call["name"] == "act" && call["status"] == "SUCCESS").count();
    assert_eq!(server.requests().len(), 1 + ran, "what is recorded as run is what ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_during_a_short_outage_succeeds_later() {
    requires_postgres!();
    let (app, cluster) = service(options(18_000)).await;
    let server = HttpTool::answering(Answer::text("done")).await;
    app.http_tool("act", &server).await;
    with(&cluster, PgCluster::stop_immediate).await;
    let (read, write, ()) = tokio::join!(
        app.call("echo", json!({"a": 1})),
        app.call("act", json!({})),
        with(&cluster, PgCluster::start_again)
    );
    succeeded(&read);
    assert_eq!((succeeded(&write), server.requests().len()), ("done", 1));
    assert_eq!(app.stored(write["id"].as_str().unwrap()).await, write);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_opened_during_an_outage_ends_with_the_outcomes() {
    requires_postgres!();
    let (app, cluster) = service(options(300)).await;
    let server = HttpTool::answering(Answer::text("done")).await;
    app.http_tool("act", &server).await;
    with(&cluster, PgCluster::stop_immediate).await;
    let mut stream = app.call_streamed(&json!({"name": "act"})).await;
    // This later request is rejected after the patience of the first has passed as well.
    unavailable(app.post("/tool-calls", &json!({"name": "act"})).await);
    with(&cluster, PgCluster::start_again).await;
    let events = stream.rest().await;
    let batch = &events[events.len() - 1];
    assert_eq!(batch.event, "batch");
    failed(&batch.data["results"][0], "OVERLOADED");
    assert_eq!((statuses(&events), server.requests().len()), (vec!["WAIT", "DOING", "ERROR"], 0));
}
