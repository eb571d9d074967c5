//! Calls over MCP that wait for an approval: a task for clients that know tasks; any other client waits.

use serde_json::{Value, json};

use super::call;
use super::clients::is_content;
use super::tasks::{settled, tasks};
use crate::support::calls::id_of;
use crate::support::{App, Backend, Client, eventually};

/// Registers tools whose names say what [`approver`] does.
pub(super) async fn register(app: &App) {
    let properties = json!({"amount": {"type": "integer"}});
    let tool = |name: &str, approval: Value| {
        json!({"name": name, "description": "Pays.", "input_schema": {"type": "object", "properties": properties},
            "executor": {"type": "builtin", "name": "echo"}, "approval": approval})
    };
    app.register(tool("approve_me", json!({}))).await;
    app.register(tool("reject_me", json!({}))).await;
    app.register(tool("expire_me", json!({"expires_ms": 1}))).await;
    app.register(tool("policy_approves_me", json!({"required": false}))).await;
    let policy = json!({"name": "ask", "when": "tool.name == 'policy_approves_me'", "effect": "approve"});
    assert_eq!(app.post("/policies", &policy).await.status, 201);
}

/// Waits for the only pending approval of a tool.
pub(super) async fn pending(client: &Client, name: &str) -> Value {
    let path = format!("/approvals?name={name}");
    eventually("the approval", || async { client.get(&path).await.ok()["approvals"].get(0).cloned() }).await
}

/// Waits for the only pending approval of a tool, and decides.
pub(super) async fn decided(client: &Client, name: &str, decision: &str) -> String {
    let call = pending(client, name).await;
    let body = json!({"decision": decision, "digest": call["approval"]["digest"], "reason": "not today"});
    client.post(&format!("/tool-calls/{}/approval", id_of(&call)), &body).await.ok();
    id_of(&call)
}

async fn approver(client: Client) {
    decided(&client, "approve_me", "approve").await;
    decided(&client, "reject_me", "reject").await;
    decided(&client, "policy_approves_me", "approve").await;
}

pub(super) fn pays(name: &str) -> Value {
    json!({"name": name, "arguments": {"amount": 5}})
}

on_both_databases!(
    async fn gated_call_is_a_task_until_the_decision(backend: Backend) {
        let app = App::start(backend).await;
        register(&app).await;
        for name in ["approve_me", "policy_approves_me"] {
            let created = tasks(&app, "tools/call", pays(name)).await["result"].clone();
            assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
            let id = created["taskId"].as_str().unwrap();
            let call = pending(&app, name).await;
            assert_eq!(id_of(&call), id);
            let task = tasks(&app, "tasks/get", json!({"taskId": id})).await["result"].clone();
            let shown = (&task["status"], &task["statusMessage"]);
            assert_eq!(shown, (&json!("working"), &json!("waiting for approval")), "{task}");
            decided(&app, name, "approve").await;
            let task = settled(&app, id).await;
            assert_eq!(
                (&task["status"], &task["result"]["content"][0]["text"]),
                (&json!("completed"), &json!(r#"{"amount":5}"#))
            );
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn rejected_or_expired_task_ends_with_an_error_for_the_model() {
    let app = App::on_sqlite().await;
    register(&app).await;
    for (name, text) in [
        ("reject_me", r#"Error: Tool call "reject_me" was rejected: not today"#),
        ("expire_me", r#"Error: Tool call "expire_me" was not approved in time"#),
    ] {
        let created = tasks(&app, "tools/call", pays(name)).await["result"].clone();
        if name == "reject_me" {
            decided(&app, name, "reject").await;
        }
        let task = settled(&app, created["taskId"].as_str().unwrap()).await;
        assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
        assert_eq!(task["result"]["content"][0]["text"], text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn task_waiting_for_approval_can_be_cancelled() {
    let app = App::on_sqlite().await;
    register(&app).await;
    let created = tasks(&app, "tools/call", pays("policy_approves_me")).await["result"].clone();
    let id = created["taskId"].as_str().unwrap();
    tasks(&app, "tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(settled(&app, id).await["status"], "cancelled");
    assert_eq!(app.get("/approvals").await.ok()["approvals"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ungated_call_of_a_task_client_has_its_result() {
    let app = App::on_sqlite().await;
    register(&app).await;
    let answer = tasks(&app, "tools/call", json!({"name": "echo", "arguments": {"n": 1}})).await["result"].clone();
    assert_eq!(
        (&answer["resultType"], &answer["structuredContent"]),
        (&json!("complete"), &json!({"n": 1})),
        "{answer}"
    );
}

on_both_databases!(
    async fn client_without_tasks_waits_for_the_decision(backend: Backend) {
        let app = App::start(backend).await;
        register(&app).await;
        for (name, decision, text) in [
            ("approve_me", "approve", r#"{"amount":5}"#),
            ("policy_approves_me", "approve", r#"{"amount":5}"#),
            ("reject_me", "reject", r#"Error: Tool call "reject_me" was rejected: not today"#),
        ] {
            let (result, _) = tokio::join!(call(&app, name, json!({"amount": 5})), decided(&app, name, decision));
            assert_eq!(
                (&result["content"][0]["text"], result["isError"] == true),
                (&json!(text), decision == "reject")
            );
        }
    }
);

/// Runs a client in another language next to an approver.
async fn waits(file: &str, mode: &str) {
    let app = App::on_sqlite().await;
    register(&app).await;
    let url = app.url("/mcp");
    let arguments = [mode, &url];
    tokio::join!(is_content(file, &arguments), approver((*app).clone()));
}

macro_rules! waiting_clients {
    ($($name:ident: $file:literal, $mode:literal;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "surfaces"]
        async fn $name() {
            waits($file, $mode).await;
        }
    )+};
}

waiting_clients! {
    the_python_sdk_waits_for_approvals: "python/mcp_approvals.py", "modern";
    the_python_sdk_waits_for_approvals_before_2026: "python/mcp_approvals.py", "legacy";
    the_python_sdk_polls_tasks_until_the_decision: "python/mcp_approvals.py", "tasks";
    the_typescript_sdk_waits_for_approvals: "mcp_approvals.mjs", "modern";
    the_typescript_sdk_waits_for_approvals_before_2026: "mcp_approvals.mjs", "legacy";
    the_typescript_sdk_of_yesterday_waits_for_approvals: "mcp_approvals.mjs", "v1";
}
