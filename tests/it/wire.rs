//! Golden files of the wire format in `tests/fixtures`, compared byte for byte with a frozen clock and sequential ids.

use reqwest::Method;
use serde_json::{Value, json};
use toolpost::domain::Time;

use crate::support::fixture::{same_json, same_stream};
use crate::support::service::rust_tools;
use crate::support::{Answer, App, Backend, Client, HttpTool, Options, bounded};

/// Starts a service whose responses are deterministic if calls are sent one at a time.
async fn service() -> App {
    let options = Options {
        frozen_at: Some(Time(1_767_225_600_123_456)),
        extra: rust_tools(),
        egress_allow: vec!["127.0.0.1".into()],
        ..Options::default()
    };
    App::start_with(Backend::Sqlite, options).await
}

fn weather() -> Value {
    json!({
        "name": "get_weather", "title": "Weather", "description": "Tells the weather.", "category": "data",
        "tags": ["weather"], "version": "1.2.0", "examples": [{"arguments": {"city": "北京"}, "output": "sunny"}],
        "input_schema": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string", "default": "C"}},
        },
        "annotations": {"read_only": true}, "limits": {"timeout_ms": 5000},
        "executor": {"type": "builtin", "name": "echo"},
    })
}

/// Replaces the name of the node, which differs between processes.
fn settled(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            if let Some(node) = members.get_mut("node") {
                *node = "NODE".into();
            }
            members.values_mut().for_each(|member| *member = settled(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = settled(item.take())),
        _ => {}
    }
    value
}

/// Returns the bytes of a stream to its end.
async fn stream(client: &Client, method: Method, path: &str, body: Option<Value>) -> String {
    let request = client.request(method, path).header("accept", "text/event-stream");
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    bounded("a whole stream", async { request.send().await.unwrap().text().await.unwrap() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_successful_call_and_its_stats() {
    let app = service().await;
    app.register(weather()).await;
    let body = json!({"name": "get_weather", "id": "call_abc", "session": "chat", "arguments": {"city": "北京\u{0}", "days": "3"}});
    let call = app.call_with(body).await;
    same_json("tool_call_success", &settled(call));
    same_json("stats", &app.get("/tools/get_weather/stats?window=1h").await.ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_rejected_call() {
    let app = service().await;
    app.register(weather()).await;
    let call = app.call("get_weather", json!({"town": "北京", "days": "soon"})).await;
    same_json("tool_call_error", &settled(call));
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_running_call() {
    let app = service().await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
    app.http_tool("ask", &server).await;
    let running = tokio::spawn({
        let client = (*app).clone();
        async move { client.call("ask", json!({"n": 1})).await }
    });
    server.received(1).await;
    let page = app.get("/tool-calls").await.ok();
    same_json("tool_call_doing", &settled(page["tool_calls"][0].clone()));
    server.open();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_batch() {
    let app = service().await;
    let calls = json!([{"name": "echo", "id": "a", "arguments": {"n": 1}}, {"name": "fails", "id": "b"}]);
    let answer = app.post("/tool-calls", &json!({"calls": calls, "session": "chat"})).await.ok();
    same_json("batch_answer", &settled(answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_problem() {
    let app = service().await;
    let answer = app.post("/tool-calls", &json!({"name": "echo", "limits": {"timout_ms": 1}})).await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    same_json("problem", &answer.json);
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_listed_tool() {
    let app = service().await;
    let made = app.register(weather()).await;
    let list = app.get("/tools").await.ok();
    let listed = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "get_weather").unwrap();
    assert_eq!(*listed, made);
    same_json("tool", listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_reported_events() {
    let app = service().await;
    let call = app.call("reports", json!({})).await;
    let path = format!("/tool-calls/{}/events", call["id"].as_str().unwrap());
    same_stream("events_of_call", &stream(&app, Method::GET, &path, None).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_failed_events() {
    let app = service().await;
    let call = app.call("fails", json!({})).await;
    let path = format!("/tool-calls/{}/events", call["id"].as_str().unwrap());
    same_stream("events_of_failed_call", &stream(&app, Method::GET, &path, None).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn wire_form_of_a_streamed_batch() {
    let app = service().await;
    let body = json!({"calls": [{"name": "echo", "id": "a", "arguments": {"text": "a\nb"}}], "session": "chat"});
    let text = stream(&app, Method::POST, "/tool-calls", Some(body)).await;
    let page = app.get("/tool-calls").await.ok();
    same_stream("events_of_batch", &text.replace(page["tool_calls"][0]["node"].as_str().unwrap(), "NODE"));
}
