//! Calls of upstream tools, from the arguments to the result.

use serde_json::{Value, json};

use super::{Fixture, tool};
use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::sse::count;

async fn events_of(app: &crate::support::App, call: &Value) -> Vec<crate::support::Event> {
    app.events(&format!("/tool-calls/{}/events", call["id"].as_str().unwrap())).await.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_data_arrive_unchanged() {
    let fixture = Fixture::named(&["echo", "data"]);
    let app = fixture.served(json!({})).await;
    let arguments =
        json!({"text": HARD_TEXT, "big": 9_007_199_254_740_993_i64, "half": 0.5, "nested": {"a": [null, true]}});
    let call = app.call("s.echo", arguments.clone()).await;
    succeeded(&call);
    assert_eq!(call["structured"], arguments);
    assert_eq!(fixture.heard("tools/call")[0]["params"]["arguments"], arguments);
    let data = app.call("s.data", json!({})).await;
    assert_eq!((succeeded(&data), &data["structured"]), ("{\"n\":1}", &json!({"n": 1})));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_checked_before_the_server_sees_them() {
    let strict = json!([{"name": "echo", "inputSchema": {"type": "object", "required": ["n"],
        "properties": {"n": {"type": "integer"}}}}]);
    let fixture = Fixture::new(&strict);
    let app = fixture.served(json!({})).await;
    failed(&app.call("s.echo", json!({})).await, "TOOL_VALIDATION_ERROR");
    assert_eq!(app.call("s.echo", json!({"n": "5"})).await["structured"], json!({"n": 5}));
    assert_eq!(fixture.heard("tools/call").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_content_arrives() {
    let fixture = Fixture::named(&["kinds"]);
    let app = fixture.served(json!({})).await;
    let call = app.call("s.kinds", json!({})).await;
    assert_eq!(succeeded(&call), "a text");
    let kinds: Vec<&str> =
        call["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource"]);
    assert_eq!(call["content"][1]["mime_type"], "image/png");
    // The message for a model has the text of resources and mentions the other blocks.
    let message =
        json!({"tool_calls": [{"id": "c", "type": "function", "function": {"name": "s.kinds", "arguments": "{}"}}]});
    let answer = app.post("/tool-calls", &message).await.ok();
    let shown = answer["messages"][0]["content"].to_string();
    for part in ["a text", "within", "file:///a.txt", "audio"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_the_text_of_the_server() {
    let fixture = Fixture::named(&["fail", "refuse", "garbage", "large", "echo"]);
    let app = fixture.served(json!({})).await;
    let call = app.call("s.fail", json!({})).await;
    assert_eq!(failed(&call, "TOOL_EXECUTION_ERROR"), "Error executing tool \"s.fail\": no such city");
    let call = app.call("s.refuse", json!({})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("Unknown argument (MCP error -32602)"), "{call:#}");
    assert_eq!(call["error"]["details"]["mcp_data"], json!({"argument": "x"}));
    failed(&app.call("s.garbage", json!({})).await, "TOOL_EXECUTION_ERROR");
    // These failures and a response that is too large leave the connection usable.
    let call = app.call("s.large", json!({"bytes": 17 * 1024 * 1024})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("16 MiB"), "{call:#}");
    succeeded(&app.call("s.echo", json!({})).await);
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_is_checked_against_its_schema_as_declared() {
    let mut typed = tool("typed");
    typed["outputSchema"] = json!({"type": "object", "properties": {"n": {"type": "number"}}});
    let fixture = Fixture::new(&json!([typed]));
    let warned = fixture.served(json!({})).await.call("s.typed", json!({})).await;
    let output = "typed\n{\"n\":\"no number\"}";
    assert_eq!((succeeded(&warned), warned["metadata"]["output_violations"].is_array()), (output, true));
    let app = fixture.served(json!({"output_check": "strict"})).await;
    failed(&app.call("s.typed", json!({})).await, "RESULT_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_reaches_watchers_in_order() {
    let fixture = Fixture::named(&["steps"]);
    let app = fixture.served(json!({})).await;
    let call = app.call("s.steps", json!({})).await;
    assert_eq!(succeeded(&call), "all done");
    // No notification before the result is lost.
    assert_eq!(call["progress"], json!({"current": 3.0, "total": 3.0, "message": "step 3"}));
    let events = events_of(&app, &call).await;
    let steps: Vec<f64> = events.iter().filter_map(|event| event.data["progress"]["current"].as_f64()).collect();
    assert!(steps.is_sorted() && steps.last() == Some(&3.0), "{steps:?}");
    assert_eq!(count(&events, "tool_result"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_notified_of_a_cancelled_call() {
    let fixture = Fixture::named(&["wait", "echo"]);
    let app = fixture.served(json!({})).await;
    let id = app.accepted(json!({"name": "s.wait", "wait": "accepted"})).await;
    let request = fixture.hears("tools/call", 1).await[0]["id"].clone();
    app.cancel(&id).await;
    let notifications = fixture.hears("notifications/cancelled", 1).await;
    assert_eq!(notifications[0]["params"]["requestId"], request);
    assert_eq!(app.ended(&id).await["error"]["code"], "CANCELLED");
    succeeded(&app.call("s.echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_notified_of_a_call_that_times_out() {
    let fixture = Fixture::named(&["wait"]);
    let app = fixture.served(json!({})).await;
    let call = app.call_with(json!({"name": "s.wait", "limits": {"timeout_ms": 50}})).await;
    failed(&call, "TOOL_TIMEOUT");
    let notifications = fixture.hears("notifications/cancelled", 1).await;
    assert_eq!(notifications[0]["params"]["requestId"], fixture.heard("tools/call")[0]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_server_are_redacted() {
    let fixture = Fixture::named(&["mutter"]);
    let app = fixture.served(json!({"env": {"TOKEN": "${TOKEN}"}})).await;
    let call = app.call("s.mutter", json!({})).await;
    assert_eq!(succeeded(&call), "the token is [redacted]");
    let server = super::eventually("its words", || async {
        let server = app.upstream("s").await;
        let is_redacted = server["stderr"].as_array().unwrap().iter().any(|line| line == "muttered [redacted]");
        is_redacted.then_some(server)
    });
    let server = server.await;
    assert_eq!(server["env"], json!(["TOKEN"]));
    assert!(!server.to_string().contains("planted"), "{server:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_share_one_process_and_run_concurrently() {
    let fixture = Fixture::named(&["wait", "echo"]);
    let app = fixture.served(json!({})).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(app.accepted(json!({"name": "s.wait", "wait": "accepted"})).await);
    }
    fixture.hears("tools/call", 5).await;
    let calls: Vec<Value> = (0..20).map(|n| json!({"name": "s.echo", "arguments": {"n": n}})).collect();
    let results = app.batch(json!({"calls": calls, "mode": "parallel"})).await;
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["structured"], json!({"n": n}));
    }
    assert_eq!(fixture.starts(), 1);
    for id in waiting {
        app.cancel(&id).await;
    }
}
