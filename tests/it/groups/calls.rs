//! Calls of inactive tools.

use serde_json::json;

use super::{Grouping, service};
use crate::support::calls::{assert_counts, gated};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options};

on_both_databases!(
    async fn call_of_an_inactive_tool_is_stored_as_unavailable(backend: Backend) {
        let app = service(backend).await;
        app.deactivate("a").await;
        // The failure is the same for invalid arguments.
        for arguments in [json!({}), json!("{"), json!([])] {
            let call = app.call("in_a", arguments).await;
            assert_eq!(failed(&call, "TOOL_UNAVAILABLE"), "Error: Tool \"in_a\" is not available");
            assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &json!(null)));
            assert_eq!(app.stored(call["id"].as_str().unwrap()).await["error"], call["error"]);
        }
        assert_eq!(succeeded(&app.call("in_both", json!({})).await), "{}");
        let rejected = json!({"execution_count": 0, "rejected_count": 3, "rejected_by_code": {"TOOL_UNAVAILABLE": 3}});
        assert_counts(&app.stats("in_a").await, rejected);
        app.patch("/tool-groups", json!({"activate": ["a"]})).await.ok();
        assert_eq!(succeeded(&app.call("in_a", json!({})).await), "{}");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tool_fails_alone_in_its_batch() {
    let app = service(Backend::Sqlite).await;
    app.deactivate("a").await;
    for mode in ["auto", "parallel", "serial"] {
        let calls = ["in_b", "in_a", "in_none"].map(|name| json!({"name": name, "arguments": {}}));
        let results = app.batch(json!({"calls": calls, "mode": mode})).await;
        let statuses: Vec<&str> = results.iter().map(|call| call["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["SUCCESS", "ERROR", "SUCCESS"], "{mode}");
        failed(&results[1], "TOOL_UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_error_hides_inactive_tools() {
    let app = service(Backend::Sqlite).await;
    app.deactivate("a").await;
    let call = app.call("in_aa", json!({})).await;
    let output = failed(&call, "TOOL_NOT_FOUND");
    assert!(output.contains("in_both") && !output.contains("in_a,") && !output.contains("mean: in_a?"), "{output}");
    assert!(!call["error"]["details"]["available_tools"].as_array().unwrap().contains(&json!("in_a")));
}

on_both_databases!(
    async fn switch_affects_no_running_or_queued_call(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = gated("done").await;
        app.groups(&["g"]).await;
        app.tool("slow", &server, json!({"groups": ["g"], "limits": {"max_concurrency": 1}})).await;
        let running = app.posted(json!({"name": "slow", "arguments": {}}));
        server.received(1).await;
        let queued = app.accepted(json!({"name": "slow", "arguments": {}, "wait": "accepted"})).await;
        app.deactivate("g").await;
        failed(&app.call("slow", json!({})).await, "TOOL_UNAVAILABLE");
        server.open();
        assert_eq!(succeeded(&running.await.unwrap().ok()), "done");
        assert_eq!(succeeded(&app.ended(&queued).await), "done");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tool_is_not_reached_through_call_tool() {
    let options = Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.groups(&["a"]).await;
    app.grouped("hidden", &["a"]).await;
    app.deactivate("a").await;
    let call = app.call("call_tool", json!({"name": "hidden", "arguments": {}})).await;
    assert_eq!(failed(&call, "TOOL_UNAVAILABLE"), "Error: Tool \"hidden\" is not available");
    assert_eq!((&call["name"], &call["metadata"]["called_through"]), (&json!("hidden"), &json!("call_tool")));
}

#[tokio::test(flavor = "multi_thread")]
async fn models_message_that_names_an_inactive_tool_is_answered() {
    let app = service(Backend::Sqlite).await;
    app.deactivate("a").await;
    let function = |name: &str| json!({"name": name, "arguments": "{}"});
    let calls = json!([
        {"id": "call_1", "type": "function", "function": function("in_a")},
        {"id": "call_2", "type": "function", "function": function("in_b")},
    ]);
    let answer = app.post("/tool-calls", &json!({"role": "assistant", "tool_calls": calls})).await.ok();
    let messages = answer["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], "Error: Tool \"in_a\" is not available");
    assert_eq!((&messages[1]["tool_call_id"], &messages[1]["content"]), (&json!("call_2"), &json!("{}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_arguments_do_not_run_an_inactive_tool() {
    let app = service(Backend::Sqlite).await;
    app.deactivate("a").await;
    let opened = app.post("/tool-calls", &json!({"name": "in_a", "partial": true, "arguments": "{\"a\":"})).await;
    assert_eq!(opened.status, 202, "{}", opened.text());
    let id = opened.json["id"].as_str().unwrap().to_owned();
    let last = json!({"delta": "1}", "final": true});
    app.patch(&format!("/tool-calls/{id}/arguments"), last).await;
    failed(&app.ended(&id).await, "TOOL_UNAVAILABLE");
}
