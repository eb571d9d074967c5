//! Approvals of calls from every entry point: batches, messages of models, streams, and callers that wait differently.

use reqwest::Method;
use serde_json::{Value, json};

use super::{decide, gated, open, waiting_with};
use crate::support::calls::{id_of, with};
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Client, eventually};

/// Waits for the only pending approval.
async fn pending(client: &Client) -> Value {
    let first = || async { client.get("/approvals").await.ok()["approvals"].get(0).cloned() };
    eventually("the approval", first).await
}

fn pay(amount: u32) -> Value {
    json!({"name": "pay", "arguments": {"amount": amount}})
}

on_both_databases!(
    async fn caller_chooses_how_long_it_waits(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        for (headers, body) in [
            (vec![], pay(1)),
            (vec![("prefer", "respond-async")], pay(2)),
            (vec![("prefer", "wait=0")], pay(3)),
            (vec![], with(pay(4), json!({"wait": "accepted"}))),
            (vec![], with(pay(5), json!({"wait": 30}))),
        ] {
            let response = app.post_with("/tool-calls", &headers, &body).await;
            assert_eq!(response.status, 202, "{body}: {}", response.text());
            assert_eq!(response.header("location"), format!("/tool-calls/{}", id_of(&response.json)));
            let call = app.in_phase(&id_of(&response.json), "approval").await;
            decide(&app, &call, "approve", json!({})).await.ok();
            succeeded(&app.ended(&id_of(&call)).await);
        }
        for (headers, body) in
            [(vec![], with(pay(6), json!({"wait": "result"}))), (vec![("prefer", "wait=60")], pay(7))]
        {
            let (response, _) = tokio::join!(app.post_with("/tool-calls", &headers, &body), async {
                decide(&app, &pending(&app).await, "approve", json!({})).await.ok()
            });
            succeeded(&response.ok());
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn event_reader_sees_the_approval_and_the_end() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let mut events = app.call_streamed(&pay(5)).await;
    let request = events.until(|event| event.data["phase"] == "approval").await.pop().unwrap();
    decide(&app, &request.data, "approve", json!({})).await.ok();
    let rest = events.rest().await;
    let ends: Vec<&Value> =
        rest.iter().filter(|event| event.event == "tool_result").map(|event| &event.data["output"]).collect();
    assert_eq!(ends, [r#"{"amount":5}"#]);
}

on_both_databases!(
    async fn batch_calls_that_can_run_next_to_a_waiting_call_run(backend: Backend) {
        let app = open(backend).await;
        let look = json!({"name": "look", "description": "", "input_schema": {"type": "object"}, "approval": {},
            "annotations": {"read_only": true}, "executor": {"type": "builtin", "name": "echo"}});
        app.register(look).await;
        app.echo_of("write", json!({})).await;
        let calculate = |text: &str| json!({"name": "calculate", "arguments": {"expression": text}});
        let calls = json!([calculate("1+1"), {"name": "look"}, calculate("2+2"), {"name": "write"}]);
        let response = app.post("/tool-calls", &json!({"calls": calls})).await;
        assert_eq!(response.status, 202, "{}", response.text());
        let results = response.json["results"].as_array().unwrap().clone();
        for index in [0, 2] {
            succeeded(&app.ended(&id_of(&results[index])).await);
        }
        assert_eq!(app.stored(&id_of(&results[3])).await["status"], "WAIT");
        decide(&app, &app.stored(&id_of(&results[1])).await, "reject", json!({})).await.ok();
        failed(&app.ended(&id_of(&results[1])).await, "APPROVAL_DENIED");
        succeeded(&app.ended(&id_of(&results[3])).await);
    }
);

on_both_databases!(
    async fn calls_of_a_parallel_batch_wait_concurrently(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let calls: Vec<Value> = (0..3).map(pay).collect();
        let response = app.post("/tool-calls", &json!({"calls": calls, "mode": "parallel"})).await;
        assert_eq!(response.status, 202, "{}", response.text());
        let results = response.json["results"].as_array().unwrap();
        for result in results.iter().rev() {
            let call = app.in_phase(&id_of(result), "approval").await;
            decide(&app, &call, "approve", json!({})).await.ok();
        }
        for result in results {
            succeeded(&app.ended(&id_of(result)).await);
        }
    }
);

on_both_databases!(
    async fn result_for_the_model_follows_after_the_decision(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call =
            json!({"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{\"amount\":5}"}});
        let message = json!({"role": "assistant", "tool_calls": [call], "session": "s"});
        let response = app.post("/tool-calls", &message).await;
        assert_eq!(response.status, 202, "{}", response.text());
        let message = response.json["messages"][0].clone();
        assert_eq!((&message["role"], &message["tool_call_id"]), (&json!("tool"), &json!("call_1")), "{message}");
        assert!(!message["content"].as_str().unwrap().contains("\"amount\""), "{message}");
        decide(&app, &pending(&app).await, "approve", json!({})).await.ok();
        app.ended(&id_of(&response.json["results"][0])).await;
        let messages = app.get("/sessions/s/messages?format=openai").await.ok();
        let results = messages["messages"].as_array().unwrap().iter().filter(|one| one["role"] == "tool");
        let results: Vec<&Value> = results.map(|one| &one["content"]).collect();
        assert_eq!(results, [r#"{"amount":5}"#]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_with_streamed_arguments_waits_once_they_are_complete() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let opened = app.post("/tool-calls", &json!({"name": "pay", "partial": true, "arguments": "{\"amou"})).await;
    let id = id_of(&opened.json);
    assert_eq!(app.get("/approvals").await.ok()["approvals"], json!([]));
    for chunk in [json!({"delta": "nt\": 5}", "seq": 1}), json!({"final": true, "seq": 2})] {
        let path = format!("/tool-calls/{id}/arguments");
        assert!(send(app.request(Method::PATCH, &path).json(&chunk)).await.status < 300);
    }
    let call = app.in_phase(&id, "approval").await;
    assert_eq!(call["effective_arguments"], json!({"amount": 5}));
    decide(&app, &call, "approve", json!({})).await.ok();
    succeeded(&app.ended(&id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_piped_stream_waits_for_its_approval() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{\"amount\":5}"});
    let stream = [
        event(json!({"type": "message_start", "message": {"role": "assistant", "content": []}})),
        event(json!({"type": "content_block_start", "index": 0, "content_block": block})),
        event(json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        event(json!({"type": "content_block_stop", "index": 0})),
        event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})),
        event(json!({"type": "message_stop"})),
    ];
    let request = app.request(Method::POST, "/tool-calls/stream?format=anthropic").body(stream.concat());
    let mut events = app.events_from(request.header("content-type", "text/event-stream")).await;
    decide(&app, &pending(&app).await, "approve", json!({})).await.ok();
    let batch = events.until(|event| event.event == "batch").await.pop().unwrap();
    assert!(batch.data["messages"].to_string().contains("amount"), "{}", batch.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_call_ends_with_its_session() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting_with(&app, with(pay(1), json!({"session": "s"}))).await;
    assert!(app.post_empty("/sessions/s/abort").await.status < 300);
    failed(&app.ended(&id_of(&call)).await, "CANCELLED");
    assert_eq!(decide(&app, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_DECIDED");
}
