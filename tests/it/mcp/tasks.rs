//! Calls of `async` tools as tasks (SEP-2663): the same calls under the same ids, committed before the client is
//! notified.

use serde_json::{Value, json};

use super::{ask, modern};
use crate::support::client::send;
use crate::support::{App, Backend, Client, eventually};

/// Returns the metadata of a client that supports tasks.
fn knows_tasks() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}})
}

pub(super) async fn tasks(client: &Client, method: &str, params: Value) -> Value {
    send(modern(client, method, params, knows_tasks())).await.json
}

/// Registers an `async` tool that waits.
async fn job(app: &App) {
    let wait = app.get("/tools/wait").await.ok()["input_schema"].clone();
    app.register(json!({"name": "job", "description": "Waits.", "input_schema": wait, "async": true,
        "executor": {"type": "builtin", "name": "wait"}}))
        .await;
}

pub(super) async fn settled(client: &Client, id: &str) -> Value {
    eventually("the end of a task", || async {
        let task = tasks(client, "tasks/get", json!({"taskId": id})).await["result"].clone();
        (task["status"] != "working").then_some(task)
    })
    .await
}

on_both_databases!(
    async fn call_of_an_async_tool_is_a_task(backend: Backend) {
        let app = App::start(backend).await;
        job(&app).await;
        let params = json!({"name": "job", "arguments": {"ms": 50}});
        let created = tasks(&app, "tools/call", params).await["result"].clone();
        assert_eq!(created["resultType"], "task", "{created}");
        let id = created["taskId"].as_str().unwrap();
        assert_eq!(app.stored(id).await["name"], "job");
        let task = settled(&app, id).await;
        assert_eq!(task["status"], "completed");
        assert_eq!(task["result"]["content"][0]["text"], "Waited 50 ms");
        assert_eq!(app.stored(id).await["status"], "SUCCESS");
    }
);

on_both_databases!(
    async fn task_can_be_cancelled(backend: Backend) {
        let app = App::start(backend).await;
        job(&app).await;
        let params = json!({"name": "job", "arguments": {"ms": 60_000, "steps": 100}});
        let created = tasks(&app, "tools/call", params).await["result"].clone();
        let id = created["taskId"].as_str().unwrap();
        for _ in 0..2 {
            let ended = tasks(&app, "tasks/cancel", json!({"taskId": id})).await["result"].clone();
            assert_eq!(ended["resultType"], "complete", "{ended}");
            assert_eq!(settled(&app, id).await["status"], "cancelled");
        }
        assert_eq!(app.stored(id).await["error"]["code"], "CANCELLED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn failed_tool_is_a_failed_task() {
    let app = App::on_sqlite().await;
    job(&app).await;
    let created = tasks(&app, "tools/call", json!({"name": "job", "arguments": {}})).await["result"].clone();
    let task = settled(&app, created["taskId"].as_str().unwrap()).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_tasks_waits_for_the_result() {
    let app = App::on_sqlite().await;
    job(&app).await;
    let result = super::call(&app, "job", json!({"ms": 1})).await;
    assert_eq!(result["content"][0]["text"], "Waited 1 ms");
    let refused = ask(&app, "tasks/get", json!({"taskId": "x"})).await;
    assert_eq!(refused.json["error"]["code"], -32021, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_task_is_an_invalid_parameter() {
    let app = App::on_sqlite().await;
    for id in ["nonsense", "0197a1b2-0000-7000-8000-000000000000"] {
        for (method, params) in [
            ("tasks/get", json!({"taskId": id})),
            ("tasks/cancel", json!({"taskId": id})),
            ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ] {
            assert_eq!(tasks(&app, method, params).await["error"]["code"], -32602, "{method} {id}");
        }
    }
}
