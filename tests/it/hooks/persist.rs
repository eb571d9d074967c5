//! Persist hooks: they rewrite what is stored and read later, and nothing else.

use serde_json::{Value, json};

use super::{history, saying};
use crate::support::calls::{idempotent, with};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::count;
use crate::support::{Answer, App, Backend, HttpTool};

const PERSIST: &str = "tool_result_persist";

on_both_databases!(
    async fn rewrite_is_stored_and_live_readers_see_the_original(backend: Backend) {
        let app = App::with_egress(backend).await;
        let rewrite = json!({"output": "slim", "details": {"kept": 1}, "metadata": {"tag": {"a": 1}}});
        let receiver = saying(rewrite).await;
        let tool = HttpTool::answering(Answer::json(&json!({"long": "original"}))).await;
        app.http_tool("slow", &tool).await;
        app.hook(PERSIST, &receiver, "/", json!({})).await;
        for name in ["slow", "echo"] {
            let arguments = json!({"long": "original"});
            let mut live = app.call_streamed(&json!({"name": name, "arguments": arguments})).await;
            let events = live.until(|event| event.event == "batch").await;
            let (batch, events) = events.split_last().unwrap();
            let call = &batch.data["results"][0];
            assert_eq!(succeeded(call), r#"{"long":"original"}"#);
            assert_eq!((&call["structured"], &call["metadata"]), (&arguments, &json!({})));
            assert!(
                events.iter().filter(|event| event.is_result()).all(|event| event.data["output"] == call["output"])
            );

            let stored = app.stored(call["id"].as_str().unwrap()).await;
            assert_eq!(succeeded(&stored), "slim");
            assert_eq!(stored["content"], json!([{"type": "text", "text": "slim"}]));
            assert_eq!((&stored["structured"], &stored["details"]["kept"]), (&Value::Null, &1.into()));
            assert_eq!(stored["metadata"], json!({"tag": {"a": 1}}));
            assert_eq!((&stored["arguments"], &stored["duration_ms"]), (&arguments, &call["duration_ms"]));
            assert_eq!(stored["ended_at"], call["ended_at"]);
            let read_back = history(&app, &call["id"]).await;
            assert_eq!(read_back.len(), events.len());
            let result = read_back.last().unwrap();
            assert_eq!((result.is_result(), &result.data["output"]), (true, &"slim".into()));
            // No event of the end contains the original value; the arguments are unchanged.
            let is_rewritten = |event: &&crate::support::Event| {
                event.event != "tool_call" && event.data.to_string().contains("original")
            };
            assert_eq!(read_back.iter().filter(is_rewritten).count(), 0, "{read_back:#?}");
            assert_eq!(app.stats(name).await["success_count"], 1);
        }
    }
);

on_both_databases!(
    async fn replay_has_the_stored_result(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = saying(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})).await;
        app.hook(PERSIST, &receiver, "/", json!({})).await;
        let body = json!({"name": "echo", "arguments": {"n": 1}});
        let mut outputs = Vec::new();
        for _ in 0..2 {
            let answer = app.post_with("/tool-calls", &[("idempotency-key", "k")], &body).await.ok();
            outputs.push(answer["output"].clone());
        }
        assert_eq!(outputs, [json!(r#"{"n":1}"#), json!("a\nb")]);
        assert_eq!(receiver.requests().len(), 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn each_hook_sees_the_result_of_the_previous_one() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (first, second) = (saying(json!({"output": "one"})).await, saying(json!({"metadata": {"two": 2}})).await);
    app.hook(PERSIST, &second, "/", json!({})).await;
    app.hook(PERSIST, &first, "/", json!({"priority": 1})).await;
    let call = app.call("echo", json!({})).await;
    assert_eq!(second.request().json()["result"]["output"], "one");
    let stored = app.stored(call["id"].as_str().unwrap()).await;
    assert_eq!((&stored["output"], &stored["metadata"]["two"]), (&"one".into(), &2.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_failure_is_rewritten_everywhere() {
    let app = App::with_egress(Backend::Sqlite).await;
    let tool = HttpTool::answering(Answer::json(&json!({"error": "PIN 1234 is wrong"}))).await;
    let receiver = saying(json!({"output": "Error: hidden"})).await;
    app.http_tool("pin", &tool).await;
    app.hook(PERSIST, &receiver, "/", json!({})).await;
    let call = app.call("pin", json!({})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("1234"));
    let stored = app.stored(call["id"].as_str().unwrap()).await;
    assert_eq!(failed(&stored, "TOOL_EXECUTION_ERROR"), "Error: hidden");
    assert!(!stored.to_string().contains("1234"), "{stored:#}");
}

on_both_databases!(
    async fn failing_persist_hook_follows_its_policy(backend: Backend) {
        let app = App::with_egress(backend).await;
        let tool = HttpTool::answering(Answer::text("result")).await;
        app.tool("reads", &tool, json!({"annotations": {"read_only": true}})).await;
        app.http_tool("writes", &tool).await;
        let receiver = HttpTool::answering(Answer::status(500, "text/plain", "")).await;
        for (policy, kept) in
            [("open", "result"), ("closed", "[The result is not stored: a tool_result_persist hook failed]")]
        {
            let hook = app.hook(PERSIST, &receiver, "/", json!({"failure_policy": policy})).await;
            for name in ["reads", "writes"] {
                for more in [json!({}), json!({"callback_url": tool.url("/callback")})] {
                    let call = app.call_with(with(json!({"name": name}), more)).await;
                    assert_eq!(succeeded(&call), "result");
                    assert_eq!(succeeded(&app.stored(call["id"].as_str().unwrap()).await), kept);
                    let events = history(&app, &call["id"]).await;
                    assert_eq!((count(&events, "hook_error"), count(&events, "tool_result")), (1, 1));
                    let numbers: Vec<u64> = events.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
                    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
                }
            }
            assert_eq!(app.delete(&format!("/hooks/{hook}")).await.status, 204);
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn slow_hook_delays_its_own_call_only() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::AfterGate(Box::new(Answer::json(&json!({"output": "later"}))))).await;
    let tool = HttpTool::answering(Answer::text("ran")).await;
    app.tool("one", &tool, with(json!({"limits": {"max_concurrency": 1}}), json!({"annotations": idempotent()}))).await;
    let more = json!({"timeout_ms": 60_000, "match": {"tools": ["one"]}});
    app.hook(PERSIST, &receiver, "/", more).await;
    let first = app.posted(json!({"name": "one"}));
    receiver.received(1).await;
    // The tool is finished: its next call runs, and calls of other tools end.
    let second = app.posted(json!({"name": "one"}));
    tool.received(2).await;
    succeeded(&app.call("echo", json!({})).await);
    receiver.open();
    for answer in [first, second] {
        let call = answer.await.unwrap().ok();
        assert_eq!(succeeded(&call), "ran");
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await["output"], "later");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_cancelled_during_a_hanging_hook_keeps_its_result() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::Never).await;
    let tool = HttpTool::answering(Answer::text("ran")).await;
    app.http_tool("writes", &tool).await;
    app.tool("reads", &tool, json!({"annotations": {"read_only": true}})).await;
    app.hook(PERSIST, &receiver, "/", json!({"timeout_ms": 60_000})).await;
    for (n, name) in ["writes", "reads"].into_iter().enumerate() {
        let answer = app.posted(json!({"name": name}));
        receiver.received(n + 1).await;
        app.cancel(&app.only(name).await).await;
        let call = answer.await.unwrap().ok();
        assert_eq!(succeeded(&call), "ran");
        assert_eq!(succeeded(&app.stored(call["id"].as_str().unwrap()).await), "ran");
        let numbers: Vec<Value> =
            history(&app, &call["id"]).await.iter().map(|event| event.data["seq"].clone()).collect();
        assert_eq!(numbers, (1..=numbers.len()).map(Value::from).collect::<Vec<_>>());
    }
}
