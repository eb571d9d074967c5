//! What policies decide about calls.

use serde_json::json;

use super::policy;
use crate::support::calls::{assert_counts, id_of};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Options};

on_both_databases!(
    async fn first_matching_policy_decides(backend: Backend) {
        let app = App::start(backend).await;
        policy(&app, "large", "has(args.n) && args.n > 10", "deny", json!({"reason": "too large", "priority": 1}))
            .await;
        policy(&app, "vip", "has(args.n) && args.n == 100", "allow", json!({"priority": 2})).await;
        let denied = app.call("echo", json!({"n": 11})).await;
        assert_eq!(failed(&denied, "POLICY_DENIED"), "Error: Tool call \"echo\" is not allowed: too large");
        assert_eq!((&denied["metadata"]["policy"], &denied["attempts"]), (&json!("large"), &json!(0)));
        let allowed = app.call("echo", json!({"n": 100})).await;
        succeeded(&allowed);
        assert_eq!(allowed["metadata"]["policy"], "vip");
        let others = app.call("echo", json!({"n": 1})).await;
        succeeded(&others);
        assert_eq!(others["metadata"].get("policy"), None);
        assert_counts(&app.stats("echo").await, json!({"execution_count": 2, "rejected_count": 1}));
    }
);

on_both_databases!(
    async fn policy_requests_an_approval(backend: Backend) {
        let app = App::start(backend).await;
        policy(&app, "large", "has(args.n) && args.n > 10", "approve", json!({"reason": "above 10"})).await;
        let response = app.post("/tool-calls", &json!({"name": "echo", "arguments": {"n": 11}})).await;
        assert_eq!(response.status, 202, "{}", response.text());
        let (call, approval) = (&response.json, &response.json["approval"]);
        assert_eq!((&approval["required_by"], &approval["policy"]), (&json!("policy"), &json!("large")));
        assert_eq!((&approval["reason"], &call["metadata"]["policy"]), (&json!("above 10"), &json!("large")));
        let body = json!({"decision": "approve", "digest": approval["digest"]});
        app.post(&format!("/tool-calls/{}/approval", id_of(call)), &body).await.ok();
        succeeded(&app.ended(&id_of(call)).await);
        succeeded(&app.call("echo", json!({"n": 1})).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn evaluation_beyond_its_limits_denies_with_a_reason() {
    let app = App::start(Backend::Sqlite).await;
    policy(&app, "steps", "has(args.l) && args.l.all(x, args.l.all(y, x <= y))", "allow", json!({})).await;
    policy(&app, "memory", "has(args.big) && args.m.map(x, args.big + 'x').size() > 0", "allow", json!({})).await;
    let denied = app.call("echo", json!({"l": vec![1; 50_000]})).await;
    let text = failed(&denied, "POLICY_DENIED");
    assert!(text.starts_with("Error: Tool call \"echo\" is not allowed"), "{text}");
    let reason = denied["error"]["details"]["policy"].to_string();
    assert!(reason.contains("more than 1000000 steps"), "{}", denied["error"]);
    let denied = app.call("echo", json!({"big": "x".repeat(200_000), "m": vec![1; 10_000]})).await;
    failed(&denied, "POLICY_DENIED");
    let reason = denied["error"]["details"]["policy"].to_string();
    assert!(reason.contains("more than 16777216 bytes of memory"), "{}", denied["error"]);
    // The same for stored calls, and the service serves others.
    let tried = json!({"since": "2026-01-01T00:00:00Z", "policies": [
        {"name": "steps", "when": "has(args.l) && args.l.all(x, args.l.all(y, x <= y))", "effect": "allow"}]});
    assert_eq!(app.post("/policies/test", &tried).await.ok()["failed"], 1);
    succeeded(&app.call("echo", json!({"n": 1})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_pattern_is_checked_when_its_policy_is_stored() {
    let app = App::start(Backend::Sqlite).await;
    let body = json!({"name": "p", "when": "args.path.matches('(')", "effect": "deny"});
    points_at(&app.post("/policies", &body).await.problem(422), "/when");
    policy(
        &app,
        "paths",
        r"has(args.paths) && !args.paths.all(path, path.matches('^/srv/[\\w-]{1,64}/[\\w.-]{1,128}$'))",
        "deny",
        json!({}),
    )
    .await;
    let paths: Vec<String> = (0..9000).map(|n| format!("/srv/d{n}/file-{n}.txt")).collect();
    succeeded(&app.call("echo", json!({"paths": paths})).await);
    failed(&app.call("echo", json!({"paths": ["/etc/passwd"]})).await, "POLICY_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_waiting_for_an_approval_is_answered() {
    let app = App::start(Backend::Sqlite).await;
    policy(&app, "large", "has(args.n) && args.n > 10", "approve", json!({})).await;
    let schema = json!({"type": "object"});
    app.register(crate::support::app::echo_tool("write", schema)).await;
    let calls = json!([{"name": "write", "arguments": {"n": 11}}, {"name": "write", "arguments": {"n": 1}}]);
    let response = app.post("/tool-calls", &json!({"calls": calls})).await;
    assert_eq!(response.status, 202, "{}", response.text());
    let results = &response.json["results"];
    assert_eq!((&results[0]["phase"], &results[1]["status"]), (&json!("approval"), &json!("WAIT")));
    assert_eq!(app.cancel(&id_of(&results[0])).await.status, 202);
    succeeded(&app.ended(&id_of(&results[1])).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_evaluation_denies() {
    let app = App::start(Backend::Sqlite).await;
    policy(&app, "amount", "args.amount > 10", "approve", json!({})).await;
    let denied = app.call("echo", json!({})).await;
    let text = failed(&denied, "POLICY_DENIED");
    assert!(text.contains("could not be evaluated"), "{text}");
    let details = &denied["error"]["details"]["policy"];
    assert_eq!(details["name"], "amount");
    assert!(details["error"].as_str().unwrap().contains("amount"), "{details}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_see_the_effective_arguments() {
    let app = App::with_egress(Backend::Sqlite).await;
    let hook = HttpTool::answering(Answer::json(&json!({"arguments": {"n": 50}}))).await;
    app.hook("before_tool_call", &hook, "/", json!({})).await;
    policy(&app, "large", "args.n > 10", "deny", json!({})).await;
    failed(&app.call("echo", json!({"n": 1})).await, "POLICY_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_forbidden_by_a_policy_is_rejected() {
    let app = App::start(Backend::Sqlite).await;
    policy(&app, "never", "args.n > 100", "deny", json!({"priority": 1, "reason": "never above 100"})).await;
    policy(&app, "large", "args.n > 10", "approve", json!({})).await;
    let call = app.post("/tool-calls", &json!({"name": "echo", "arguments": {"n": 11}})).await.json;
    let edit = |n: u32| json!({"decision": "approve", "digest": call["approval"]["digest"], "arguments": {"n": n}});
    let path = format!("/tool-calls/{}/approval", id_of(&call));
    let refused = app.post(&path, &edit(101)).await.problem(422);
    points_at(&refused, "/arguments");
    assert!(refused["detail"].as_str().unwrap_or_default().contains("never above 100"), "{refused}");
    app.post(&path, &edit(12)).await.ok();
    succeeded(&app.ended(&id_of(&call)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_definition_is_evaluated_again() {
    let app = App::start(Backend::Sqlite).await;
    policy(&app, "no-evil", "has(args.to) && args.to == 'evil'", "deny", json!({})).await;
    let tool = |schema| json!({"description": "", "input_schema": schema, "approval": {}, "executor": {"type": "builtin", "name": "echo"}});
    assert_eq!(app.put("/tools/send", &tool(json!({"type": "object"}))).await.status, 201);
    let call = app.post("/tool-calls", &json!({"name": "send"})).await.json;
    assert_eq!(call["phase"], "approval");
    let changed = json!({"type": "object", "properties": {"to": {"type": "string", "default": "evil"}}});
    app.put("/tools/send", &tool(changed)).await.ok();
    failed(&app.ended(&id_of(&call)).await, "POLICY_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_cannot_replace_the_name_of_the_policy() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server =
        HttpTool::answering(Answer::json(&json!({"output": "x", "metadata": {"policy": "fake", "own": 1}}))).await;
    app.http_tool("act", &server).await;
    policy(&app, "fine", "true", "allow", json!({})).await;
    let call = app.call("act", json!({})).await;
    assert_eq!((&call["metadata"]["policy"], &call["metadata"]["own"]), (&json!("fine"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_can_restrict_a_tool_to_one_key() {
    let app = App::start(Backend::Sqlite).await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let admin = app.with_key(&admin);
    let (deployer, id) = admin.key(json!({"scopes": ["call"]})).await;
    let (other, _) = admin.key(json!({"scopes": ["call"]})).await;
    policy(&admin, "deploy", &format!("tool.name == 'echo' && caller.key != '{id}'"), "deny", json!({})).await;
    succeeded(&app.with_key(&deployer).call("echo", json!({})).await);
    failed(&app.with_key(&other).call("echo", json!({})).await, "POLICY_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_reaches_other_nodes() {
    requires_postgres!();
    let one = App::start_with(Backend::Postgres, Options::default()).await;
    let other = one.second().await;
    policy(&one, "none", "tool.name == 'echo'", "deny", json!({})).await;
    let denied = || async {
        let call = other.call("echo", json!({})).await;
        (call["status"] == "ERROR").then_some(call)
    };
    failed(&crate::support::eventually("the policy", denied).await, "POLICY_DENIED");
}
