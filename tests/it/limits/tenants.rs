//! Quotas of tenants, counted in the database.

use reqwest::Method;
use serde_json::{Value, json};
use toolpost::config::Config;

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::shapes::failed;
use crate::support::{App, Backend, Client, eventually};

fn few(config: &mut Config) {
    let quotas = &mut config.tenants;
    (quotas.max_tools, quotas.max_groups, quotas.max_hooks, quotas.max_sessions, quotas.max_keys) = (2, 2, 2, 2, 4);
}

fn tool(name: &str) -> Value {
    echo_tool(name, json!({"type": "object"}))
}

async fn refused(client: &Client, path: &str, body: Value, code: &str) {
    let answer = client.post(path, &body).await;
    assert_eq!(answer.header("retry-after"), "60");
    assert_eq!(answer.problem(429)["code"], code);
}

async fn made(client: &Client, path: &str, body: Value) -> Value {
    let answer = client.post(path, &body).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    answer.json
}

on_both_databases!(
    async fn tenant_quota_is_enforced_separately(backend: Backend) {
        let app = App::tuned(backend, few).await;
        let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
        let one = app.with_key(&key);
        let (key, _) = one.key(json!({"scopes": ["admin"], "tenant": "two"})).await;
        let two = one.with_key(&key);
        for tenant in [&one, &two] {
            for name in ["a", "b"] {
                made(tenant, "/tools", tool(name)).await;
                made(tenant, "/tool-groups", json!({"name": name})).await;
                made(tenant, "/sessions", json!({"id": name})).await;
                let hook = json!({"event": "after_tool_call", "url": "http://127.0.0.1:1/"});
                made(tenant, "/hooks", hook).await;
            }
            refused(tenant, "/tools", tool("c"), "TOO_MANY_TOOLS").await;
            assert_eq!(tenant.put("/tools/c", &tool("c")).await.problem(429)["code"], "TOO_MANY_TOOLS");
            refused(tenant, "/tool-groups", json!({"name": "c"}), "TOO_MANY_GROUPS").await;
            refused(tenant, "/sessions", json!({"id": "c"}), "TOO_MANY_SESSIONS").await;
            let hook = json!({"event": "after_tool_call", "url": "http://127.0.0.1:1/"});
            refused(tenant, "/hooks", hook, "TOO_MANY_HOOKS").await;
            assert_eq!(tenant.get("/tools/c").await.status, 404);
            assert_eq!(tenant.get("/sessions/c").await.status, 404);
        }
    }
);

on_both_databases!(
    async fn replacement_needs_no_quota_and_deletion_frees_it(backend: Backend) {
        let app = App::tuned(backend, few).await;
        for name in ["a", "b"] {
            made(&app, "/tools", tool(name)).await;
            made(&app, "/sessions", json!({"id": name})).await;
        }
        assert_eq!(app.put("/tools/a", &tool("a")).await.status, 200);
        assert_eq!(app.post("/tools", &tool("a")).await.problem(409)["code"], "TOOL_EXISTS");
        assert_eq!(app.delete("/tools/a").await.status, 204);
        made(&app, "/tools", tool("c")).await;
        // A call creates its session, or continues an existing one.
        let in_session = |id: &str| json!({"name": "echo", "session": id});
        refused(&app, "/tool-calls", in_session("c"), "TOO_MANY_SESSIONS").await;
        app.call_with(in_session("a")).await;
        assert_eq!(app.delete("/sessions/a").await.status, 204);
        eventually("room", || async { (app.post("/tool-calls", &in_session("c")).await.status == 200).then_some(()) })
            .await;
    }
);

on_both_databases!(
    async fn many_at_once_are_no_more_than_there_may_be(backend: Backend) {
        let app = App::tuned(backend, |config| {
            (config.tenants.max_tools, config.tenants.max_sessions) = (5, 5);
        })
        .await;
        let makes = (0..20).flat_map(|n| {
            let (tool, session) = (tool(&format!("t{n}")), json!({"id": format!("s{n}")}));
            [("/tools", tool), ("/sessions", session)]
        });
        let answers = futures_util::future::join_all(makes.map(|(path, body)| {
            let client = (*app).clone();
            async move { (path, client.post(path, &body).await) }
        }));
        for (path, answer) in answers.await {
            assert!([201, 429].contains(&answer.status), "{path}: {}", answer.text());
        }
        let tools = app.get("/tools").await.ok();
        let own = tools["tools"].as_array().unwrap().iter().filter(|tool| tool["source"] == "api").count();
        assert_eq!(own, 5);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn revoked_keys_do_not_count() {
    let app = App::tuned(Backend::Sqlite, |config| config.tenants.max_keys = 2).await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    let (_, id) = operator.key(json!({"scopes": ["read"]})).await;
    refused(&operator, "/keys", json!({"scopes": ["read"]}), "TOO_MANY_KEYS").await;
    made(&operator, "/keys", json!({"scopes": ["read"], "tenant": "another"})).await;
    assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
    made(&operator, "/keys", json!({"scopes": ["read"]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn import_beyond_the_quota_is_reported_for_each_tool() {
    let app = App::tuned(Backend::Sqlite, few).await;
    let paths: serde_json::Map<String, Value> =
        (0..3).map(|n| (format!("/p{n}"), json!({"get": {"operationId": format!("p{n}"), "responses": {}}}))).collect();
    let document = json!({"openapi": "3.1.0", "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.example.com"}], "paths": paths});
    let report = send(app.request(Method::POST, "/imports/openapi").json(&document)).await.ok();
    assert_eq!((&report["created"], report["refused"].as_array().unwrap().len()), (&json!([]), 3), "{report}");
    assert!(report["refused"][0]["reason"].as_str().unwrap().contains("2 registered tools"), "{report}");
    assert_eq!(app.get("/tools/p0").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_beyond_the_session_quota_fails_with_a_reason() {
    let app = App::tuned(Backend::Sqlite, |config| config.tenants.max_sessions = 1).await;
    made(&app, "/sessions", json!({"id": "s", "tools": ["new_task"]})).await;
    let arguments = json!({"agent_name": "a", "task_name": "t", "input": "i"});
    let call = json!({"name": "new_task", "session": "s", "arguments": arguments, "wait": "result"});
    let failure = app.call_with(call).await;
    failed(&failure, "TOOL_EXECUTION_ERROR");
    assert!(
        failure["output"].as_str().unwrap().contains("the limit of 1 sessions is reached"),
        "{}",
        failure["output"]
    );
}
