//! The calls that a policy concerns: calls of its tenant, while it is enabled, and each call of a batch separately.

use serde_json::{Value, json};

use super::policy;
use crate::support::calls::id_of;
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{App, Backend};

on_both_databases!(
    async fn policy_applies_only_to_calls_of_its_tenant(backend: Backend) {
        let app = App::start(backend).await;
        let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
        let operator = app.with_key(&admin);
        let tenant = |name: &str| json!({"scopes": ["call", "admin"], "tenant": name});
        let (one, _) = operator.key(tenant("one")).await;
        let (other, _) = operator.key(tenant("other")).await;
        let (one, other) = (app.with_key(&one), app.with_key(&other));
        policy(&one, "none", "true", "deny", json!({})).await;
        failed(&one.call("echo", json!({})).await, "POLICY_DENIED");
        succeeded(&other.call("echo", json!({})).await);
        succeeded(&operator.call("echo", json!({})).await);
        other.get("/policies/none").await.problem(404);
        other.delete("/policies/none").await.problem(404);
    }
);

on_both_databases!(
    async fn disabled_or_deleted_policy_decides_nothing(backend: Backend) {
        let app = App::start(backend).await;
        policy(&app, "none", "true", "deny", json!({"enabled": false})).await;
        succeeded(&app.call("echo", json!({})).await);
        app.put("/policies/none", &json!({"when": "true", "effect": "deny"})).await.ok();
        failed(&app.call("echo", json!({})).await, "POLICY_DENIED");
        assert_eq!(app.delete("/policies/none").await.status, 204);
        succeeded(&app.call("echo", json!({})).await);
    }
);

on_both_databases!(
    async fn denied_call_of_a_batch_affects_no_other_call(backend: Backend) {
        let app = App::start(backend).await;
        policy(&app, "second", "call.batch != null && call.index == 1", "deny", json!({})).await;
        let calls: Vec<Value> = (0..3).map(|n| json!({"name": "echo", "arguments": {"n": n}})).collect();
        let results = app.batch(json!({"calls": calls})).await;
        assert_eq!(succeeded(&results[0]), r#"{"n":0}"#);
        failed(&results[1], "POLICY_DENIED");
        assert_eq!(succeeded(&results[2]), r#"{"n":2}"#);
        succeeded(&app.call("echo", json!({})).await);
    }
);

on_both_databases!(
    async fn definition_sets_the_approval_that_a_policy_requests(backend: Backend) {
        let app = App::start(backend).await;
        let tool = json!({"name": "pay", "description": "", "input_schema": {"type": "object"},
            "approval": {"required": false, "min_approvals": 2, "expires_ms": 5000},
            "executor": {"type": "builtin", "name": "echo"}});
        app.register(tool).await;
        succeeded(&app.call("pay", json!({"amount": 1})).await);
        policy(&app, "large", "args.amount > 100", "approve", json!({})).await;
        succeeded(&app.call("pay", json!({"amount": 1})).await);
        let call = app.post("/tool-calls", &json!({"name": "pay", "arguments": {"amount": 101}})).await.json;
        assert_eq!((&call["approval"]["min_approvals"], &call["approval"]["policy"]), (&json!(2), &json!("large")));
        app.cancel(&id_of(&call)).await;
        failed(&app.ended(&id_of(&call)).await, "CANCELLED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn allow_does_not_replace_a_required_approval() {
    let app = App::on_sqlite().await;
    let tool = json!({"name": "pay", "description": "", "input_schema": {"type": "object"}, "approval": {},
        "executor": {"type": "builtin", "name": "echo"}});
    app.register(tool).await;
    policy(&app, "fine", "true", "allow", json!({})).await;
    let call = app.post("/tool-calls", &json!({"name": "pay"})).await.json;
    assert_eq!((&call["phase"], &call["approval"]["required_by"]), (&json!("approval"), &json!("tool")));
    assert_eq!(call["metadata"]["policy"], "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_that_fails_evaluation_is_rejected() {
    let app = App::on_sqlite().await;
    policy(&app, "large", "args.n > 10", "approve", json!({})).await;
    let call = app.post("/tool-calls", &json!({"name": "echo", "arguments": {"n": 11}})).await.json;
    let body = json!({"decision": "approve", "digest": call["approval"]["digest"], "arguments": {}});
    let refused = app.post(&format!("/tool-calls/{}/approval", id_of(&call)), &body).await.problem(422);
    points_at(&refused, "/arguments");
    assert_eq!(app.stored(&id_of(&call)).await["approval"], call["approval"]);
}

on_both_databases!(
    async fn policy_test_reads_only_the_named_calls(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({"n": 1})).await;
        app.call("calculate", json!({"expression": "1+1"})).await;
        let test = |more: Value| {
            let policy = json!({"name": "none", "when": "true", "effect": "deny"});
            let body = json!({"policy": policy, "since": "2020-01-01T00:00:00.000Z"});
            let body = crate::support::calls::with(body, more);
            let app = &app;
            async move { app.post("/policies/test", &body).await.ok() }
        };
        let all = test(json!({})).await;
        assert_eq!((&all["evaluated"], &all["denied"], &all["changed"]), (&json!(2), &json!(2), &json!(2)), "{all}");
        assert_eq!(test(json!({"name": "echo"})).await["evaluated"], 1);
        assert_eq!(test(json!({"until": "2020-02-01T00:00:00.000Z"})).await["evaluated"], 0);
        assert_eq!(test(json!({"since": "2999-01-01T00:00:00.000Z"})).await["evaluated"], 0);
        succeeded(&app.call("echo", json!({})).await);
    }
);
