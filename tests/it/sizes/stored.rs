//! Truncated results in messages, sessions, events, hooks, the cache, and after a restart.

use serde_json::{Value, json};

use super::{answering, lines, saying, whole};
use crate::support::calls::with;
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend};

fn message(vendor: &str) -> Value {
    match vendor {
        "openai" => json!({"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}),
        "openai-responses" => json!({"output": [
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"}]}),
        "anthropic" => json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "t", "input": {}}]}),
        _ => json!({"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_every_vendor_carry_the_cut_text() {
    let app = App::with_egress(Backend::Sqlite).await;
    let _server = saying(&app, "t", &lines(3000), json!({"max_output_lines": 2})).await;
    for vendor in ["openai", "openai-responses", "anthropic", "gemini"] {
        let body = with(message(vendor), json!({"session": vendor, "format": vendor}));
        let answer = app.post("/tool-calls", &body).await.ok();
        let messages = answer["messages"].to_string();
        let contains = |text: &str| messages.contains(text);
        assert!(contains("line 2\\n[… 2,998 lines (") && !contains("line 3\\n"), "{vendor}: {messages}");
        let conversation = app.get(&format!("/sessions/{vendor}/messages?format={vendor}")).await.text();
        assert!(conversation.contains("2,998 lines (") && !conversation.contains("line 3\\n"), "{conversation}");
    }
}

on_both_databases!(
    async fn megabytes_survive_a_restart_whole(backend: Backend) {
        let app = App::with_egress(backend).await;
        let text = lines(300_000);
        assert!(text.len() > 3_000_000);
        let _server = saying(&app, "t", &text, json!({"truncate": "head_tail"})).await;
        let call = app.call("t", json!({})).await;
        assert!(succeeded(&call).len() < 52_000);
        let app = app.restart().await;
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        assert!(whole(&app, &call).await == text);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn cached_result_is_cut_by_the_limits_of_each_call() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = crate::support::HttpTool::answering(Answer::text(&lines(50))).await;
    let definition = json!({
        "name": "t", "description": "Says much.", "input_schema": {"type": "object"},
        "annotations": {"idempotent": true}, "cache": {"ttl_ms": 60_000, "scope": "global"},
        "executor": {"type": "http", "url": server.url("/run")},
    });
    app.register(definition).await;
    let call = async |max: u32| {
        app.call_with(json!({"name": "t", "arguments": {}, "limits": {"max_output_lines": max}})).await
    };
    let (first, second, third) = (call(2).await, call(4).await, call(50).await);
    assert_eq!(server.requests().len(), 1);
    assert_eq!((&second["cached"], &third["cached"]), (&json!(true), &json!(true)));
    assert!(succeeded(&first).contains("48 lines") && succeeded(&second).contains("46 lines"));
    assert!(succeeded(&second).contains(second["id"].as_str().unwrap()), "the notice is about this call");
    assert_eq!(succeeded(&third), lines(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_images_keep_their_order_when_texts_are_cut() {
    let app = App::with_egress(Backend::Sqlite).await;
    let text = |text: &str| json!({"type": "text", "text": text});
    let image =
        json!({"type": "image", "data": super::images::base64(&super::images::png(4, 4)), "mime_type": "image/png"});
    let content = json!({"content": [text("one"), image, text("two"), text("three"), image, text("four")]});
    let limits = json!({"max_output_lines": 2, "truncate": "head_tail"});
    let _server = answering(&app, "t", Answer::json(&content), limits).await;
    let call = app.call("t", json!({})).await;
    let shown: Vec<&str> =
        call["content"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap_or("image")).collect();
    assert_eq!((shown[0], shown[1], shown[3], shown[4], shown.len()), ("one", "image", "image", "four", 5));
    assert!(shown[2].starts_with("[… 2 lines"), "{shown:?}");
    assert_eq!(whole(&app, &call).await, "one\ntwo\nthree\nfour");
}
