//! Workers: programs that fetch calls of a queue (section 17 of the contract).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::calls::{id_of, with};
use crate::support::client::send;
use crate::support::{App, Backend, Client, Response};

mod access;
mod claiming;
mod deaths;
mod early;
mod idle;
mod leases;
mod listing;
mod races;
mod results;
mod rust;
mod sharing;
mod tools;
mod uncertain;

/// Registers the tool `t` of the queue `q`.
async fn tool(client: &Client, more: Value) {
    let definition = json!({"name": "t", "input_schema": {"type": "object"},
        "executor": {"type": "worker", "queue": "q", "lease_ms": 30_000}});
    let answer = client.post("/tools", &with(definition, more)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// Returns the executor of a tool whose workers lose a call after a second without a heartbeat.
fn brief() -> Value {
    json!({"type": "worker", "queue": "q", "lease_ms": 1000})
}

/// Returns the definition of an idempotent tool with short leases.
fn brief_idempotent() -> Value {
    json!({"executor": brief(), "annotations": {"idempotent": true}})
}

/// Starts a service with the tool `t`.
async fn service(backend: Backend, more: Value) -> App {
    let app = App::start(backend).await;
    tool(&app, more).await;
    app
}

/// Makes a call of `t` without waiting for it. Returns its id.
async fn called(client: &Client, arguments: Value) -> String {
    client.sent(json!({"name": "t", "arguments": arguments, "wait": "accepted"})).await
}

async fn claim_with(client: &Client, worker: &str, more: Value) -> Response {
    client.post("/workers/q/claim", &with(json!({"worker": worker}), more)).await
}

/// Claims calls of the queue `q` and waits for the first one.
async fn claim(client: &Client, worker: &str, max: usize) -> Vec<Value> {
    let answer = claim_with(client, worker, json!({"max": max, "wait_ms": 30_000})).await.ok();
    answer["calls"].as_array().unwrap().clone()
}

/// Claims one call of the queue `q` and waits for it.
async fn claim_one(client: &Client, worker: &str) -> Value {
    let mut calls = claim(client, worker, 1).await;
    assert_eq!(calls.len(), 1, "one call");
    calls.remove(0)
}

/// Returns what is available in the queue `q`, without waiting.
async fn claim_now(client: &Client, worker: &str) -> Vec<Value> {
    let answer = claim_with(client, worker, json!({"max": 64})).await.ok();
    answer["calls"].as_array().unwrap().clone()
}

async fn heartbeat(client: &Client, worker: &str, calls: &[&Value]) -> Value {
    let ids: Vec<&Value> = calls.iter().map(|call| &call["id"]).collect();
    client.post("/workers/q/heartbeat", &json!({"worker": worker, "calls": ids})).await.ok()
}

/// Posts to a path of a claimed call, with its token.
async fn post(client: &Client, call: &Value, path: &str, body: &Value) -> Response {
    let request = client.request(Method::POST, &format!("/tool-calls/{}/{path}", id_of(call)));
    send(request.bearer_auth(call["token"].as_str().unwrap()).json(body)).await
}

/// Posts the result of a claimed call. Returns whether it was ignored.
async fn answer(client: &Client, call: &Value, result: &Value) -> bool {
    let receipt = post(client, call, "result", result).await.ok();
    receipt["ignored"].as_bool().unwrap()
}

/// Posts a result that counts.
async fn finish(client: &Client, call: &Value, result: &Value) {
    let receipt = post(client, call, "result", result).await.ok();
    assert_eq!(receipt["ignored"], false, "{receipt} of {call:#}");
}

/// Posts the result of a call with a short lease. On a slow machine the worker may lose the call first, and claims it again.
/// Returns the attempt that counted.
async fn finish_in_time(client: &Client, worker: &str, call: Value, result: &Value) -> u64 {
    let mut call = call;
    while answer(client, &call, result).await {
        let id = id_of(&call);
        call = claim_one(client, worker).await;
        assert_eq!(id_of(&call), id);
    }
    call["attempt"].as_u64().unwrap()
}
