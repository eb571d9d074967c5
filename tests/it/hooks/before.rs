//! Before-hooks: order, merging, blocking, and hooks that are not invoked.

use serde_json::{Value, json};

use super::{saying, silent};
use crate::support::calls::assert_counts;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, ReceivedRequest};

const BEFORE: &str = "before_tool_call";

on_both_databases!(
    async fn hooks_run_by_priority_and_see_earlier_changes(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = HttpTool::start("127.0.0.1", |request: &ReceivedRequest| match request.target.as_str() {
            "/high" => Answer::json(&json!({"arguments": {"b": {"new": true}, "c": 1}})),
            "/tie-1" => Answer::json(&json!({})),
            "/tie-2" => Answer::json(&json!({"arguments": {"c": 2}})),
            _ => Answer::status(204, "text/plain", ""),
        })
        .await;
        for (path, priority) in [("/low", -1), ("/tie-1", 0), ("/high", 7), ("/tie-2", 0)] {
            app.hook(BEFORE, &receiver, path, json!({"priority": priority})).await;
        }
        let given = json!({"a": 1, "b": {"old": true}});
        let call = app.call("echo", given.clone()).await;
        assert_eq!(succeeded(&call), r#"{"a":1,"b":{"new":true},"c":2}"#);
        assert_eq!(call["arguments"], given);
        let runs = call["metadata"]["hooks"].as_array().unwrap();
        assert_eq!(runs.len(), 4);
        assert!(runs.iter().all(|run| run["event"] == BEFORE && run["at"].is_string() && run["duration_ms"].is_u64()));
        assert_eq!(call["effective_arguments"], json!({"a": 1, "b": {"new": true}, "c": 2}));
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        let seen: Vec<(String, Value)> = receiver
            .requests()
            .into_iter()
            .map(|request| (request.target.clone(), request.json()["call"]["arguments"].clone()))
            .collect();
        let high = json!({"a": 1, "b": {"new": true}, "c": 1});
        let expected = [
            ("/high", given),
            ("/tie-1", high.clone()),
            ("/tie-2", high),
            ("/low", json!({"a": 1, "b": {"new": true}, "c": 2})),
        ];
        assert_eq!(seen, expected.map(|(path, arguments)| (path.to_owned(), arguments)));
    }
);

on_both_databases!(
    async fn block_is_final_and_the_tool_never_runs(backend: Backend) {
        let app = App::with_egress(backend).await;
        let (tool, later) = (HttpTool::answering(Answer::text("ran")).await, silent().await);
        let blocking = saying(json!({"block": true, "reason": "not on a Sunday"})).await;
        app.http_tool("mail", &tool).await;
        let id = app.hook(BEFORE, &blocking, "/", json!({"priority": 1})).await;
        app.hook(BEFORE, &later, "/", json!({})).await;
        let call = app.call("mail", json!({})).await;
        assert_eq!(failed(&call, "TOOL_BLOCKED"), "Error: not on a Sunday");
        assert_eq!((&call["attempts"], &call["started_at"]), (&0.into(), &Value::Null));
        assert_eq!(call["error"]["details"]["hook"], id);
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        assert!(tool.requests().is_empty() && later.requests().is_empty());
        let stats = app.stats("mail").await;
        assert_counts(&stats, json!({"execution_count": 0, "rejected_count": 1}));
        assert_eq!(stats["rejected_by_code"], json!({"TOOL_BLOCKED": 1}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn block_without_a_reason_has_a_default_reason() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = saying(json!({"block": true})).await;
    app.hook(BEFORE, &receiver, "/", json!({})).await;
    assert_eq!(failed(&app.call("echo", json!({})).await, "TOOL_BLOCKED"), "Error: Tool call blocked by hook");
}

on_both_databases!(
    async fn changed_arguments_are_checked_and_coerced_like_any_others(backend: Backend) {
        let app = App::with_egress(backend).await;
        let receiver = HttpTool::start("127.0.0.1", |request: &ReceivedRequest| {
            let n = if request.json()["call"]["arguments"]["n"] == 1 { json!("5") } else { json!("many") };
            Answer::json(&json!({"arguments": {"n": n}}))
        })
        .await;
        app.echo_of("count", json!({"n": {"type": "integer"}})).await;
        let id = app.hook(BEFORE, &receiver, "/", json!({})).await;
        let mended = app.call("count", json!({"n": 1})).await;
        assert_eq!(succeeded(&mended), r#"{"n":5}"#);
        assert_eq!(mended["coerced"], json!([{"pointer": "/n", "from": "string", "to": "integer"}]));
        let broken = app.call("count", json!({"n": 2})).await;
        let text = failed(&broken, "TOOL_VALIDATION_ERROR");
        assert!(text.starts_with("Error: Invalid parameters for tool \"count\"\n- /n: "), "{text}");
        assert!(text.contains(&id), "{text}");
        assert_eq!(broken["error"]["details"]["hook"], id);
        assert_eq!(broken["error"]["details"]["received"], json!({"n": "many"}));
        assert_counts(&app.stats("count").await, json!({"execution_count": 1, "rejected_count": 1}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tools_invalid_arguments_and_other_tools_invoke_no_hook() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = silent().await;
    for event in [BEFORE, "after_tool_call", "tool_result_persist"] {
        app.hook(event, &receiver, &format!("/{event}"), json!({"match": {"tools": ["calc*", "nothing"]}})).await;
    }
    failed(&app.call("nothing", json!({})).await, "TOOL_NOT_FOUND");
    failed(&app.call("calculate", json!({})).await, "TOOL_VALIDATION_ERROR");
    failed(&app.call("calculate", json!("{")).await, "ARGUMENTS_MALFORMED");
    succeeded(&app.call("echo", json!({})).await);
    assert_eq!(receiver.requests().len(), 0);
    succeeded(&app.call("calculate", json!({"expression": "1+1"})).await);
    receiver.received(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_final_streamed_arguments_invoke_hooks() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = saying(json!({"arguments": {"by": "hook"}})).await;
    app.hook(BEFORE, &receiver, "/", json!({})).await;
    let body = json!({"name": "echo", "partial": true, "arguments": "{\"a\":"});
    let id = app.accepted(body).await;
    let path = format!("/tool-calls/{id}/arguments");
    let patch = |body: Value| crate::support::client::send(app.request(reqwest::Method::PATCH, &path).json(&body));
    patch(json!({"delta": "1}", "seq": 1})).await;
    assert!(receiver.requests().is_empty());
    patch(json!({"final": true})).await;
    assert_eq!(succeeded(&app.ended(&id).await), r#"{"a":1,"by":"hook"}"#);
    assert_eq!(receiver.request().json()["call"]["arguments"], json!({"a": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_of_a_batch_invokes_hooks() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::start("127.0.0.1", |request: &ReceivedRequest| {
        let is_bad = request.json()["call"]["arguments"]["n"] == 2;
        if is_bad { Answer::json(&json!({"block": true, "reason": "no twos"})) } else { Answer::json(&json!({})) }
    })
    .await;
    app.hook(BEFORE, &receiver, "/", json!({})).await;
    let calls: Vec<Value> = (1..=3).map(|n| json!({"name": "echo", "arguments": {"n": n}})).collect();
    for mode in ["auto", "parallel", "serial"] {
        let results = app.batch(json!({"mode": mode, "calls": calls})).await;
        let outputs: Vec<&Value> = results.iter().map(|call| &call["output"]).collect();
        assert_eq!(outputs, [&json!(r#"{"n":1}"#), &json!("Error: no twos"), &json!(r#"{"n":3}"#)], "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_cancelled_during_a_hanging_hook_ends_immediately() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::Never).await;
    app.hook(BEFORE, &receiver, "/", json!({"timeout_ms": 60_000})).await;
    for body in [json!({"name": "echo"}), json!({"name": "echo", "wait": "accepted"})] {
        let before = receiver.requests().len();
        let answer = app.posted(body);
        receiver.received(before + 1).await;
        let id = crate::support::eventually("the waiting call", || async {
            let waiting = app.get("/tool-calls?status=WAIT").await.ok();
            waiting["tool_calls"][0]["id"].as_str().map(str::to_owned)
        })
        .await;
        app.cancel(&id).await;
        failed(&app.ended(&id).await, "CANCELLED");
        answer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_times_out_during_a_hanging_hook_ends_immediately() {
    let app = App::with_egress(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::Never).await;
    app.hook(BEFORE, &receiver, "/", json!({"timeout_ms": 60_000})).await;
    let call = app.call_with(json!({"name": "echo", "limits": {"queue_timeout_ms": 50}})).await;
    assert_eq!(failed(&call, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 50ms (queue_timeout_ms)");
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_hook_holds_no_slot() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (receiver, tool) = (HttpTool::answering(Answer::Never).await, HttpTool::answering(Answer::text("ok")).await);
    app.tool("one", &tool, json!({"limits": {"max_concurrency": 1}})).await;
    let hook = app.hook(BEFORE, &receiver, "/", json!({"timeout_ms": 60_000})).await;
    let hanging = app.accepted(json!({"name": "one", "wait": "accepted"})).await;
    receiver.received(1).await;
    assert_eq!(app.delete(&format!("/hooks/{hook}")).await.status, 204);
    succeeded(&app.call("one", json!({})).await);
    app.cancel(&hanging).await;
    failed(&app.ended(&hanging).await, "CANCELLED");
}
