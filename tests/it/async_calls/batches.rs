//! Batches that are answered before all their calls have ended.

use serde_json::{Value, json};

use crate::support::calls::{gated, has_ended, id_of};
use crate::support::shapes::{failed, ids, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Response};

/// Starts a service with the async tool `job`, whose server is gated, and the tool `act`, which answers at once.
async fn service(backend: Backend) -> (App, HttpTool, HttpTool) {
    let (app, slow) = (App::with_egress(backend).await, gated("late").await);
    let quick = HttpTool::answering(Answer::text("now")).await;
    app.tool("job", &slow, json!({"async": true})).await;
    app.tool("act", &quick, json!({})).await;
    (app, slow, quick)
}

/// Checks the 202 response of an unfinished batch and returns its results.
async fn unfinished(app: &App, answer: Response) -> Vec<Value> {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let batch_id = answer.json["batch_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/tool-calls?batch_id={batch_id}"));
    let results = answer.json["results"].as_array().unwrap().clone();
    let mut listed = ids(&app.get(answer.header("location")).await.ok()["tool_calls"]);
    let mut returned: Vec<String> = results.iter().map(id_of).collect();
    listed.sort();
    returned.sort();
    assert_eq!(listed, returned);
    results
}

fn calls(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "id": name})).collect()
}

on_both_databases!(
    async fn batch_of_async_calls_is_answered_before_its_end(backend: Backend) {
        let (app, slow, _quick) = service(backend).await;
        let body = json!({"calls": [{"name": "job", "id": "a"}, {"name": "job", "id": "b"}], "mode": "parallel"});
        let results = unfinished(&app, app.post("/tool-calls", &body).await).await;
        assert_eq!((&results[0]["call_id"], &results[1]["call_id"]), (&json!("a"), &json!("b")));
        assert!(!results.iter().any(has_ended));
        slow.open();
        for call in &results {
            assert_eq!(succeeded(&app.ended(&id_of(call)).await), "late");
        }
    }
);

on_both_databases!(
    async fn mixed_batch_waits_for_its_synchronous_calls_only(backend: Backend) {
        let (app, slow, quick) = service(backend).await;
        for (round, names) in [["act", "job"], ["job", "act"]].into_iter().enumerate() {
            let answer = app.post("/tool-calls", &json!({"calls": calls(&names)})).await;
            let results = unfinished(&app, answer).await;
            for (call, name) in results.iter().zip(names) {
                assert_eq!(call["name"], name);
                if name == "act" { assert_eq!(succeeded(call), "now") } else { assert!(!has_ended(call)) }
            }
            assert_eq!(quick.requests().len(), round + 1);
        }
        slow.open();
        for call in app.all_calls().await {
            succeeded(&app.ended(&id_of(&call)).await);
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn settled_batch_is_a_200() {
    let (app, slow, _quick) = service(Backend::Sqlite).await;
    let schema = json!({"type": "object", "required": ["n"]});
    app.tool("strict", &slow, json!({"async": true, "input_schema": schema})).await;
    let answer = app.post("/tool-calls", &json!({"calls": calls(&["act", "strict", "nobody"])})).await;
    assert!(answer.header("location").is_empty());
    let results = answer.ok()["results"].clone();
    assert_eq!(succeeded(&results[0]), "now");
    failed(&results[1], "TOOL_VALIDATION_ERROR");
    failed(&results[2], "TOOL_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_can_wait_for_a_batch() {
    let (app, slow, _quick) = service(Backend::Sqlite).await;
    slow.open();
    let results = app.batch(json!({"calls": calls(&["job", "act"]), "wait": "result"})).await;
    assert_eq!((succeeded(&results[0]), succeeded(&results[1])), ("late", "now"));
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_can_submit_a_batch_without_waiting() {
    let (app, slow, _quick) = service(Backend::Sqlite).await;
    app.tool("slow", &slow, json!({})).await;
    let body = json!({"calls": [{"name": "slow", "id": "a"}, {"name": "slow", "id": "b"}], "mode": "serial"});
    for (prefer, wait) in [("", json!("accepted")), ("", json!(20)), ("respond-async", Value::Null)] {
        let body = crate::support::calls::with(body.clone(), json!({"wait": wait}));
        let results = unfinished(&app, app.post_with("/tool-calls", &[("prefer", prefer)], &body).await).await;
        assert!(!results.iter().any(has_ended));
    }
    slow.open();
    for call in app.all_calls().await {
        assert_eq!(succeeded(&app.ended(&id_of(&call)).await), "late");
    }
    assert_eq!(slow.requests().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_batch_keeps_its_order_without_a_waiting_caller() {
    let (app, slow, _quick) = service(Backend::Sqlite).await;
    app.tool("slow", &slow, json!({})).await;
    let numbered: Vec<Value> = (0..5).map(|n| json!({"name": "slow", "arguments": {"n": n}})).collect();
    let body = json!({"calls": numbered, "mode": "serial", "wait": "accepted"});
    let results = unfinished(&app, app.post("/tool-calls", &body).await).await;
    slow.received(1).await;
    slow.open();
    for call in &results {
        succeeded(&app.ended(&id_of(call)).await);
    }
    let order: Vec<Value> = slow.requests().iter().map(|request| request.json()["arguments"]["n"].clone()).collect();
    assert_eq!((order, slow.max_running()), ((0..5).map(Value::from).collect(), 1));
}
