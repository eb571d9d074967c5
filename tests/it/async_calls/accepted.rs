//! Tools with `"async": true`.

use serde_json::{Value, json};

use crate::support::calls::{assert_counts, gated, has_ended, id_of};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, App, Backend, HttpTool};

on_both_databases!(
    async fn async_call_is_answered_before_its_end(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("late").await);
        app.tool("job", &server, json!({"async": true})).await;
        let answer = app.post("/tool-calls", &json!({"name": "job", "arguments": {"a": 1}, "id": "call_1"})).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let (call, location) = (&answer.json, answer.header("location").to_owned());
        assert_eq!(location, format!("/tool-calls/{}", id_of(call)));
        assert!(!has_ended(call), "{call:#}");
        assert_eq!((&call["call_id"], &call["arguments"]), (&json!("call_1"), &json!({"a": 1})));
        assert_eq!((&call["output"], &call["error"], &call["ended_at"]), (&Value::Null, &Value::Null, &Value::Null));
        server.received(1).await;
        assert!(!has_ended(&app.get(&location).await.ok()));
        server.open();
        let call = app.ended(&id_of(call)).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("late", &json!(1)));
        assert_eq!(server.requests().len(), 1);
        assert_counts(&app.stats("job").await, json!({"execution_count": 1, "success_count": 1, "retry_count": 0}));
    }
);

on_both_databases!(
    async fn async_call_has_the_usual_events(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::text("ok")).await);
        app.tool("job", &server, json!({"async": true})).await;
        let id = app.sent(json!({"name": "job"})).await;
        let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!((statuses(&events), events[0].event.as_str()), (vec!["WAIT", "DOING", "SUCCESS"], "tool_call"));
        assert_eq!((count(&events, "tool_call"), count(&events, "tool_result")), (1, 1));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn async_call_fails_like_any_other() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::status(400, "text/plain", "no such city")).await;
    app.tool("job", &server, json!({"async": true})).await;
    let id = app.sent(json!({"name": "job"})).await;
    let call = app.ended(&id).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").starts_with("Error executing tool \"job\": "), "{call:#}");
    assert_eq!(app.stats("job").await["failures_by_code"], json!({"TOOL_EXECUTION_ERROR": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn builtin_can_be_async() {
    let app = App::on_sqlite().await;
    let executor = json!({"type": "builtin", "name": "wait"});
    app.register(json!({"name": "nap", "async": true, "executor": executor})).await;
    let id = app.sent(json!({"name": "nap", "arguments": {"ms": 1}})).await;
    assert_eq!(succeeded(&app.ended(&id).await), "Waited 1 ms");
    assert_eq!(app.get("/tools/nap").await.ok()["async"], true);
}

on_both_databases!(
    async fn invalid_arguments_of_an_async_tool_are_reported_immediately(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("never").await);
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        app.tool("job", &server, json!({"async": true, "input_schema": schema})).await;
        for (arguments, code) in [(json!({}), "TOOL_VALIDATION_ERROR"), (json!("{\"n\":"), "ARGUMENTS_MALFORMED")] {
            let answer = app.post("/tool-calls", &json!({"name": "job", "arguments": arguments})).await;
            assert!(answer.header("location").is_empty());
            let call = answer.ok();
            failed(&call, code);
            assert_eq!(app.stored(&id_of(&call)).await, call);
        }
        assert_eq!(server.requests().len(), 0);
        assert_counts(&app.stats("job").await, json!({"execution_count": 0, "rejected_count": 2}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn truncated_async_call_never_runs() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("never").await);
    app.tool("job", &server, json!({"async": true})).await;
    failed(&app.call_with(json!({"name": "job", "stop_reason": "length"})).await, "ARGUMENTS_TRUNCATED");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn async_call_finishes_with_its_initial_definition() {
    let (app, first) = (App::with_egress(Backend::Sqlite).await, gated("first").await);
    let second = HttpTool::answering(Answer::text("second")).await;
    app.tool("job", &first, json!({"async": true})).await;
    let id = app.accepted(json!({"name": "job"})).await;
    first.received(1).await;
    let other = crate::support::calls::tool("job", &second, json!({"async": true}));
    app.put("/tools/job", &other).await.ok();
    first.open();
    assert_eq!(succeeded(&app.ended(&id).await), "first");
    assert_eq!(second.requests().len(), 0);
}
