//! Interrupted streams and truncated outputs.

use serde_json::{Value, json};

use super::{Pipe, anthropic, batch, block, call, delta, end, message_start, next, piped};
use crate::support::{App, Options};

fn codes(batch: &Value) -> Vec<&str> {
    let code = |result: &'_ Value| result["error"]["code"].as_str().map(str::to_owned);
    let results = batch["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| match code(result).as_deref() {
            None => "SUCCESS",
            Some("ARGUMENTS_TRUNCATED") => "ARGUMENTS_TRUNCATED",
            Some("ARGUMENTS_MALFORMED") => "ARGUMENTS_MALFORMED",
            Some(_) => "another",
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_stream_keeps_complete_calls_and_ends_the_rest() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start()];
    events.extend(call(0, "toolu_1", "echo", &json!({"n": 1})));
    events.extend([block(1, "toolu_2", "echo"), delta(1, "{\"n\":2}")]);
    let events = piped(&app, "format=anthropic", &anthropic(&events), 33).await;
    let batch = batch(&events);
    assert_eq!(codes(batch), ["SUCCESS", "ARGUMENTS_TRUNCATED"]);
    assert!(batch["stream_error"].as_str().unwrap().contains("ended early"), "{batch}");
    let content = &batch["messages"][0]["content"];
    assert_eq!((&content[0]["is_error"], &content[1]["is_error"]), (&json!(false), &json!(true)), "{batch}");
    assert_eq!(app.stats("echo").await["execution_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_output_never_runs() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start(), block(0, "toolu_1", "echo"), delta(0, "{\"n\":"), super::stop(0)];
    events.extend(end("max_tokens"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 1000).await;
    let batch = batch(&events);
    assert_eq!(codes(batch), ["ARGUMENTS_TRUNCATED"]);
    assert_eq!(batch.get("stream_error"), None, "{batch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_arguments_are_reported() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start(), block(0, "toolu_1", "echo"), delta(0, "{\"n\":nope}"), super::stop(0)];
    events.extend(end("tool_use"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 1000).await;
    assert_eq!(codes(batch(&events)), ["ARGUMENTS_MALFORMED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_stream_has_a_reason() {
    let app = App::on_sqlite().await;
    let mut stream = anthropic(&[message_start(), block(0, "toolu_1", "echo"), delta(0, "{}")]);
    stream.push_str("data: {\"type\": oops\n\n");
    let events = piped(&app, "format=anthropic", &stream, 1000).await;
    let batch = batch(&events);
    assert_eq!(codes(batch), ["ARGUMENTS_TRUNCATED"]);
    assert!(batch["stream_error"].is_string(), "{batch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_the_provider_is_passed_on() {
    let app = App::on_sqlite().await;
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let events = piped(&app, "format=anthropic", &anthropic(&[message_start(), error]), 1000).await;
    assert!(batch(&events)["stream_error"].as_str().unwrap().contains("Overloaded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_longer_than_a_mebibyte_end_their_call_only() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start(), block(0, "toolu_1", "echo"), delta(0, "{\"a\":\"")];
    let piece = "x".repeat(256 * 1024);
    events.extend((0..4).map(|_| delta(0, &piece)));
    events.extend([delta(0, "\"}"), super::stop(0)]);
    events.extend(call(1, "toolu_2", "echo", &json!({"n": 1})));
    events.extend(end("tool_use"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 50_000).await;
    assert_eq!(codes(batch(&events)), ["ARGUMENTS_TRUNCATED", "SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_stream_ends_its_open_calls() {
    let options = Options { configure: Some(|config| config.streams.silence_ms = 200), ..Options::default() };
    let app = App::start_with(crate::support::Backend::Sqlite, options).await;
    let (pipe, mut events) = Pipe::open(&app, "format=anthropic").await;
    pipe.say(&[message_start(), block(0, "toolu_1", "echo"), delta(0, "{}")]);
    let result = next(&mut events, |event| event.is_result()).await;
    assert_eq!(result.data["error"]["code"], "ARGUMENTS_TRUNCATED");
    // Later events for the call are ignored.
    pipe.say(&[super::stop(0)]);
    pipe.say(&end("tool_use"));
    drop(pipe);
    assert_eq!(codes(batch(&events.rest().await)), ["ARGUMENTS_TRUNCATED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waiting_behind_another_is_not_silent() {
    let options = Options { configure: Some(|config| config.streams.silence_ms = 3000), ..Options::default() };
    let app = App::start_with(crate::support::Backend::Sqlite, options).await;
    let (pipe, mut events) = Pipe::open(&app, "format=openai").await;
    let chunk =
        |calls: Value| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}));
    let opened = |index: u32, text: &str| json!([{"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": "echo", "arguments": text}}]);
    pipe.send(&chunk(opened(0, "{}")));
    pipe.send(&chunk(opened(1, "{\"a\":\"")));
    // Waits for each chunk to appear before it sends the next, for longer than the silence timeout of the first call.
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(4);
    let mut text = String::new();
    while tokio::time::Instant::now() < until {
        text.push('x');
        pipe.send(&chunk(json!([{"index": 1, "function": {"arguments": "x"}}])));
        let shown = text.clone();
        next(&mut events, |event| event.data["params"]["a"] == shown.as_str()).await;
    }
    pipe.send(&chunk(json!([{"index": 1, "function": {"arguments": "\"}"}}])));
    pipe.send(&format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})));
    drop(pipe);
    assert_eq!(codes(batch(&events.rest().await)), ["SUCCESS", "SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_arguments_and_their_parameters_are_kept() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start(), block(0, "toolu_1", "echo"), delta(0, "{\"a\":\"x")];
    events.extend(end("max_tokens"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 1000).await;
    let result = &batch(&events)["results"][0];
    assert_eq!((&result["arguments"], &result["status"]), (&json!("{\"a\":\"x"), &json!("ERROR")));
    let last = events.iter().rfind(|event| event.event == "status").unwrap();
    assert_eq!(last.data["params"], json!({"a": "x"}));
}
