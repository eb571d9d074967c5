//! API keys: each client sees the tools of its own tenant and has its own sessions and tasks.

use reqwest::Method;
use serde_json::json;

use super::sessions::session;
use super::tasks::tasks;
use super::{ask, call, posted};
use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::{App, Backend, Client};

/// Returns the names of the tools that the client can list.
async fn tool_names(client: &Client) -> Vec<String> {
    let list = ask(client, "tools/list", json!({})).await.ok();
    let names = list["result"]["tools"].as_array().unwrap().iter();
    names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn key(operator: &Client, body: serde_json::Value) -> Client {
    operator.with_key(&operator.key(body).await.0)
}

on_both_databases!(
    async fn client_sees_only_tools_tasks_and_sessions_of_its_tenant(backend: Backend) {
        let app = App::start(backend).await;
        let operator = app.with_key(&app.key(json!({"scopes": ["admin"]})).await.0);
        let one = key(&operator, json!({"scopes": ["admin"], "tenant": "one"})).await;
        let other = key(&operator, json!({"scopes": ["call"], "tenant": "other"})).await;
        one.register(echo_tool("mine", json!({"type": "object"}))).await;
        // The clients alternate, which would expose a list that is cached across tenants.
        for (client, has) in [(&one, true), (&other, false), (&operator, false), (&one, true)] {
            let tool_names = tool_names(client).await;
            assert_eq!(tool_names.contains(&"mine".to_owned()), has, "{tool_names:?}");
            assert!(tool_names.contains(&"echo".to_owned()), "{tool_names:?}");
        }
        assert_eq!(call(&one, "mine", json!({"m": 1})).await["structuredContent"], json!({"m": 1}));
        let refused = ask(&other, "tools/call", json!({"name": "mine", "arguments": {}})).await;
        assert_eq!(refused.json["error"]["code"], -32602, "{}", refused.text());
        // A call is visible as a task only to its own tenant.
        let calls = one.get("/tool-calls?name=mine").await.ok();
        let id = json!({"taskId": calls["tool_calls"][0]["id"]});
        assert_eq!(tasks(&one, "tasks/get", id.clone()).await["result"]["status"], "completed");
        assert_eq!(tasks(&other, "tasks/get", id).await["error"]["code"], -32602);
        let id = session(&one).await;
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        for client in [&other, &operator] {
            assert_eq!(send(posted(client, &ping).header("mcp-session-id", &id)).await.status, 404);
            let end = client.request(Method::DELETE, "/mcp").header("mcp-session-id", &id);
            assert_eq!(send(end).await.status, 404);
        }
        assert_eq!(send(posted(&one, &ping).header("mcp-session-id", &id)).await.status, 200);
        send(posted(&app, &ping)).await.problem(401);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn restricted_key_sees_its_tools_only() {
    let app = App::on_sqlite().await;
    let operator = app.with_key(&app.key(json!({"scopes": ["admin"]})).await.0);
    let few = key(&operator, json!({"scopes": ["call"], "tools": ["calc*"]})).await;
    assert_eq!(tool_names(&few).await, ["calculate"]);
    assert_eq!(call(&few, "calculate", json!({"expression": "1 + 1"})).await["content"][0]["text"], "2");
    let refused = ask(&few, "tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(refused.json["error"]["code"], -32602, "{}", refused.text());
    assert!(tool_names(&operator).await.contains(&"echo".to_owned()));
}
