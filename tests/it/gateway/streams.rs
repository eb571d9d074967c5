//! Streams through the proxy: no event is delayed, and no stream is cut off.

use serde_json::{Value, json};
use toolpost::config::Config;

use super::{behind, nginx};
use crate::model_streams::{Pipe, batch, call, end, message_start, next};
use crate::support::{Client, EventStream};

/// Registers an `external` tool, whose calls run until a result is posted.
async fn ask_tool(client: &Client) {
    let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    client.register(definition).await;
}

/// Posts progress and a result, each only after the previous event has arrived. A proxy that buffers events would
/// block.
async fn arrives_one_by_one(service: &Client, events: &mut EventStream) {
    let first = next(events, |event| event.event == "tool_call").await;
    let id = first.data["id"].as_str().unwrap().to_owned();
    next(events, |event| event.data["phase"] == "external").await;
    for step in 1..=3 {
        let progress = json!({"details": {"step": step}});
        let answer = service.post(&format!("/tool-calls/{id}/progress"), &progress).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let heard = next(events, |event| event.event == "progress").await;
        assert_eq!(heard.data["details"]["step"], step);
    }
    assert_eq!(service.stored(&id).await["status"], "DOING");
    let answer = service.post(&format!("/tool-calls/{id}/result"), &json!("done")).await;
    assert!(answer.status < 300, "{}", answer.text());
    next(events, |event| event.is_result()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn events_of_a_call_arrive_while_it_runs() {
    let (app, nginx) = behind().await;
    ask_tool(&app).await;
    let client = nginx.client();
    let accepted = client.post("/tool-calls", &json!({"name": "ask", "wait": "accepted"})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let mut events = client.events(&format!("/tool-calls/{}/events", accepted.json["id"].as_str().unwrap())).await;
    arrives_one_by_one(&app, &mut events).await;
    assert_eq!(events.rest().await.len(), 0, "the stream of one call ends with it");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn events_arrive_one_by_one_through_nginx() {
    let (app, nginx) = behind().await;
    ask_tool(&app).await;
    let client = nginx.client();
    let mut all = client.events("/events").await;
    let mut answer = client.call_streamed(&json!({"name": "ask"})).await;
    let (one, other) = tokio::join!(arrives_one_by_one(&app, &mut answer), async {
        next(&mut all, |event| event.event == "progress").await
    });
    let ((), heard) = (one, other);
    assert_eq!(heard.data["name"], "ask");
    assert_eq!(answer.rest().await.last().unwrap().event, "batch");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn model_stream_is_passed_in_chunks_while_its_calls_run() {
    let (app, nginx) = behind().await;
    let (pipe, mut events) = Pipe::open(&nginx.client(), "format=anthropic").await;
    pipe.say(&[message_start()]);
    pipe.say(&call(0, "toolu_0", "echo", &json!({"a": 1})));
    let result = next(&mut events, |event| event.is_result()).await;
    assert_eq!(app.stored(result.data["id"].as_str().unwrap()).await["status"], "SUCCESS", "the model still speaks");
    pipe.say(&call(1, "toolu_1", "echo", &json!({"a": 2})));
    pipe.say(&end("tool_use"));
    drop(pipe);
    let rest = events.rest().await;
    assert_eq!(batch(&rest)["results"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn long_call_is_not_cut_off_by_nginx() {
    let (_app, nginx) = behind().await;
    let body = json!({"name": "wait", "arguments": {"ms": 2500}});
    let (client, plain) = (nginx.client(), nginx.plain());
    let (answer, cut) = tokio::join!(client.post("/tool-calls", &body), plain.post("/tool-calls", &body));
    assert_eq!(answer.ok()["status"], "SUCCESS");
    assert_eq!(cut.status, 504, "nginx waits for a second, unless it is told to wait longer");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn silent_stream_is_not_cut_off() {
    let (app, nginx) = behind().await;
    ask_tool(&app).await;
    let (client, plain) = (nginx.client(), nginx.plain());
    let mut answer = client.call_streamed(&json!({"name": "ask"})).await;
    let first = next(&mut answer, |event| event.data["phase"] == "external").await;
    // Without the shipped configuration, nginx ends the request at its read timeout.
    let cut = plain.post("/tool-calls", &json!({"name": "ask"})).await;
    assert_eq!(cut.status, 504);
    let id = first.data["id"].as_str().unwrap();
    app.post(&format!("/tool-calls/{id}/result"), &json!("done")).await;
    next(&mut answer, |event| event.is_result()).await;
}

#[test]
fn nginx_timeout_exceeds_the_longest_call() {
    let shipped = nginx::shipped();
    let minutes = |directive: &str| -> u64 {
        let (_, value) = shipped.split_once(&format!("{directive} ")).unwrap_or_else(|| panic!("no {directive}"));
        value.split_once("m;").and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("{value}"))
    };
    let longest = Config::default().limits.max_timeout_ms;
    for directive in ["proxy_read_timeout", "proxy_send_timeout", "client_body_timeout"] {
        assert!(minutes(directive) * 60_000 > longest, "{directive}");
    }
    let kept: Value = Config::default().server.idle_timeout_ms.into();
    assert!(shipped.contains("keepalive_timeout 60s;") && kept.as_u64() > Some(60_000));
}
