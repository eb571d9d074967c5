//! `POST /tool-calls/{id}/rerun`.

use serde_json::{Value, json};

use crate::support::calls::id_of;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, Client, HttpTool, Response};

/// Starts a service with the tool `act`, which is not idempotent.
async fn service(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::text("done")).await);
    app.http_tool("act", &server).await;
    (app, server)
}

async fn rerun(client: &Client, id: &str, body: Value) -> Response {
    client.post(&format!("/tool-calls/{id}/rerun"), &body).await
}

/// Repeats a call, checks the response, and returns the id of the new call.
async fn rerun_id(client: &Client, id: &str, body: Value) -> String {
    let answer = rerun(client, id, body).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let new = id_of(&answer.json);
    assert_eq!(answer.header("location"), format!("/tool-calls/{new}"));
    assert_eq!(answer.json["metadata"]["rerun_of"], id);
    assert_ne!(new, id);
    new
}

on_both_databases!(
    async fn new_call_has_the_same_tool_and_arguments(backend: Backend) {
        let (app, server) = service(backend).await;
        let old = app
            .call_with(json!({"name": "act", "id": "call_1", "arguments": {"a": "x\u{0}y"}, "session": "s",
                "agent": {"id": "a1"}}))
            .await;
        let new = app.ended(&rerun_id(&app, &id_of(&old), json!({})).await).await;
        succeeded(&new);
        for same in ["name", "arguments", "effective_arguments", "session", "output"] {
            assert_eq!(new[same], old[same], "{same}");
        }
        assert_eq!((&new["call_id"], &new["batch_id"]), (&new["id"], &Value::Null));
        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        assert_eq!(bodies.len(), 2);
        for same in ["arguments", "agent"] {
            assert_eq!(bodies[0][same], bodies[1][same], "{same}");
        }
        assert_eq!(app.stored(&id_of(&old)).await, old);
        assert_eq!(app.stats("act").await["success_count"], 2);
    }
);

on_both_databases!(
    async fn other_arguments_are_checked_as_usual(backend: Backend) {
        let (app, _server) = service(backend).await;
        app.echo_of("typed", json!({"n": {"type": "integer"}})).await;
        let old = app.call("typed", json!({"n": 1})).await;
        let new = app.ended(&rerun_id(&app, &id_of(&old), json!({"arguments": {"n": "7"}})).await).await;
        assert_eq!((&new["arguments"], &new["effective_arguments"]), (&json!({"n": "7"}), &json!({"n": 7})));
        let wrong = app.ended(&rerun_id(&app, &id_of(&old), json!({"arguments": {"n": "x"}})).await).await;
        failed(&wrong, "TOOL_VALIDATION_ERROR");
        app.delete("/tools/typed").await;
        let gone = app.ended(&rerun_id(&app, &id_of(&old), json!({})).await).await;
        failed(&gone, "TOOL_NOT_FOUND");
    }
);

on_both_databases!(
    async fn repeated_request_with_a_key_runs_nothing_twice(backend: Backend) {
        let (app, server) = service(backend).await;
        let old = id_of(&app.call("act", json!({"a": 1})).await);
        let path = format!("/tool-calls/{old}/rerun");
        let keyed = async |path: &str, body: Value| app.post_with(path, &[("idempotency-key", "k")], &body).await;
        let first = keyed(&path, json!({})).await;
        let again = keyed(&path, json!({})).await;
        assert_eq!((first.status, again.status), (202, 202), "{} {}", first.text(), again.text());
        assert_eq!(id_of(&first.json), id_of(&again.json));
        assert_eq!(again.header("idempotency-replayed"), "true");
        app.ended(&id_of(&first.json)).await;
        assert_eq!(server.requests().len(), 2);
        let other = app.call("act", json!({"a": 1})).await;
        for (path, body) in
            [(path, json!({"arguments": {}})), (format!("/tool-calls/{}/rerun", id_of(&other)), json!({}))]
        {
            assert_eq!(keyed(&path, body).await.problem(422)["code"], "IDEMPOTENCY_KEY_REUSED");
        }
        assert_eq!(server.requests().len(), 3);
    }
);

on_both_databases!(
    async fn redacted_arguments_are_not_run(backend: Backend) {
        let (app, server) = service(backend).await;
        let hook = json!({"event": "tool_result_persist", "builtin": "redact",
            "options": {"pointers": ["/arguments/key"]}});
        assert_eq!(app.post("/hooks", &hook).await.status, 201);
        let plain = id_of(&app.call("act", json!({"open": 1})).await);
        let secret = id_of(&app.call("act", json!({"key": "sk-1"})).await);
        let async_secret = app.sent(json!({"name": "act", "arguments": {"key": "sk-2"}, "wait": "accepted"})).await;
        app.ended(&async_secret).await;
        rerun_id(&app, &plain, json!({})).await;
        for id in [&secret, &async_secret] {
            let problem = rerun(&app, id, json!({})).await.problem(409);
            assert_eq!(problem["code"], "ARGUMENTS_REDACTED");
            assert!(problem["detail"].as_str().unwrap().contains("send `arguments`"), "{problem}");
        }
        let new = rerun_id(&app, &secret, json!({"arguments": {"key": "sk-3"}})).await;
        app.ended(&new).await;
        let sent: Vec<Value> =
            server.requests().iter().map(|request| request.json()["arguments"]["key"].clone()).collect();
        assert!(!sent.contains(&json!("[redacted]")), "{sent:?}");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_call_is_not_run_again() {
    let (app, server) = service(Backend::Sqlite).await;
    let blocked = HttpTool::answering(Answer::Never).await;
    app.tool("job", &blocked, json!({"async": true})).await;
    let id = app.accepted(json!({"name": "job"})).await;
    assert_eq!(rerun(&app, &id, json!({})).await.problem(409)["code"], "CALL_NOT_ENDED");
    assert_eq!(rerun(&app, &id, json!({"arguments": {}})).await.problem(409)["code"], "CALL_NOT_ENDED");
    app.cancel(&id).await;
    rerun_id(&app, &id, json!({})).await;
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_arguments_are_not_run() {
    let (app, server) = service(Backend::Sqlite).await;
    let cut = app.call_with(json!({"name": "act", "arguments": {"a": 1}, "stop_reason": "max_tokens"})).await;
    failed(&cut, "ARGUMENTS_TRUNCATED");
    let partial = app.sent(json!({"name": "act", "partial": true, "arguments": "{}"})).await;
    app.cancel(&partial).await;
    app.ended(&partial).await;
    for id in [id_of(&cut), partial] {
        assert_eq!(rerun(&app, &id, json!({})).await.problem(409)["code"], "ARGUMENTS_INCOMPLETE");
        assert_eq!(server.requests().len(), 0);
    }
    let new = rerun_id(&app, &id_of(&cut), json!({"arguments": {"a": 2}})).await;
    succeeded(&app.ended(&new).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_a_vendor_keep_their_meaning() {
    let app = App::on_sqlite().await;
    // In strict mode a map is a list of pairs.
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    app.echo_of("count", json!({"by_name": map})).await;
    let tools = app.get("/tools?format=openai-strict").await.ok();
    let tool = tools["tools"].as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "count").unwrap();
    assert_ne!(tool["function"]["parameters"]["properties"]["by_name"], map, "the test needs a lowered schema");
    let arguments = json!({"by_name": [{"key": "a", "value": 1}]}).to_string();
    let message = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
        "function": {"name": "count", "arguments": arguments}}]});
    let old = app.post("/tool-calls", &message).await.ok()["results"][0].clone();
    succeeded(&old);
    let new = app.ended(&rerun_id(&app, &id_of(&old), json!({})).await).await;
    assert_eq!(new["effective_arguments"], old["effective_arguments"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_result_is_not_used() {
    let (app, server) = service(Backend::Sqlite).await;
    let cache = json!({"annotations": {"idempotent": true}, "cache": {"ttl_ms": 60000, "scope": "global"}});
    app.tool("kept", &server, cache).await;
    let old = app.call("kept", json!({})).await;
    assert_eq!(app.call("kept", json!({})).await["cached"], true);
    let new = app.ended(&rerun_id(&app, &id_of(&old), json!({})).await).await;
    assert_eq!((&new["cached"], server.requests().len()), (&json!(false), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_callers_that_can_use_the_tool_run_it_again() {
    let (app, server) = service(Backend::Sqlite).await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let admin = app.with_key(&admin);
    let id = id_of(&admin.call("act", json!({})).await);
    for (key, status) in [
        (json!({"scopes": ["read"]}), 403),
        (json!({"scopes": ["call"], "tools": ["other"]}), 404),
        (json!({"scopes": ["call"], "tenant": "b"}), 404),
    ] {
        let (key, _) = admin.key(key).await;
        rerun(&app.with_key(&key), &id, json!({})).await.problem(status);
    }
    assert_eq!(server.requests().len(), 1);
    let (key, _) = admin.key(json!({"scopes": ["call"], "tools": ["act"]})).await;
    rerun_id(&app.with_key(&key), &id, json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn body_is_optional_and_checked() {
    let (app, _server) = service(Backend::Sqlite).await;
    let id = id_of(&app.call("echo", json!({"a": 1})).await);
    let answer = app.post_empty(&format!("/tool-calls/{id}/rerun")).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    for wrong in [json!({"args": {}}), json!([]), json!("x")] {
        rerun(&app, &id, wrong).await.problem(422);
    }
    rerun(&app, "0197a1b2-0000-7000-8000-000000000000", json!({})).await.problem(404);
    rerun(&app, "call_1", json!({})).await.problem(404);
}
