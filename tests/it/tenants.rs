//! Tenants are isolated: every documented route, requested by another tenant and without a key.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::{App, Backend, Client, Options};

mod parents;
mod routes;
mod shared;

/// A text in all data of the first tenant, and nowhere else.
const MARK: &str = "marker_a";

/// A tenant with a resource of every kind.
struct Owner {
    client: Client,
    /// A call that has ended.
    ended: String,
    /// A call of an external tool that waits for its result.
    waiting: String,
    /// A call that receives its arguments in chunks.
    partial: String,
    hook: String,
    key: String,
}

/// Starts a service and returns it with a client of the operator.
async fn service(backend: Backend) -> (App, Client) {
    service_with(backend, Options::default()).await
}

async fn service_with(backend: Backend, options: Options) -> (App, Client) {
    let app = App::start_with(backend, options).await;
    let (key, _) = app.key(json!({"scopes": ["admin"], "name": "operator"})).await;
    let operator = app.with_key(&key);
    (app, operator)
}

async fn tenant(operator: &Client, name: &str) -> Client {
    let (key, _) = operator.key(json!({"scopes": ["admin"], "tenant": name})).await;
    operator.with_key(&key)
}

impl Owner {
    async fn made(operator: &Client) -> Self {
        let client = tenant(operator, "marker_a_tenant").await;
        let text = |name: &str| format!("{MARK}_{name}");
        let any = json!({"type": "object"});
        let group = json!({"name": text("group"), "description": MARK});
        assert_eq!(client.post("/tool-groups", &group).await.status, 201);
        for name in ["tool", "put"] {
            client.register(echo_tool(&text(name), any.clone())).await;
        }
        let executor = json!({"type": "external"});
        client
            .register(json!({"name": text("ext"), "description": "x", "input_schema": any, "executor": executor}))
            .await;
        let hook =
            json!({"event": "after_tool_call", "url": "http://127.0.0.1:9/marker_a", "match": {"tools": ["none"]}});
        let hook = client.post("/hooks", &hook).await;
        assert_eq!(hook.status, 201, "{}", hook.text());
        assert_eq!(client.post("/sessions", &json!({"id": text("session")})).await.status, 201);
        let call =
            json!({"name": text("tool"), "arguments": {"m": MARK}, "session": text("session"), "id": text("call")});
        let ended = client.call_with(call).await;
        assert_eq!(ended["status"], "SUCCESS", "{ended}");
        let waiting =
            json!({"name": text("ext"), "arguments": {"m": MARK}, "wait": "accepted", "session": text("session")});
        let waiting = client.post("/tool-calls", &waiting).await;
        let partial = json!({"name": text("tool"), "partial": true, "arguments": "{\"m"});
        let partial = client.post("/tool-calls", &partial).await;
        assert_eq!((waiting.status, partial.status), (202, 202), "{} {}", waiting.text(), partial.text());
        let (_, key) = client.key(json!({"scopes": ["call"], "name": MARK})).await;
        let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
        Self {
            ended: id(&ended),
            waiting: id(&waiting.json),
            partial: id(&partial.json),
            hook: id(&hook.json),
            key,
            client,
        }
    }

    /// Checks that all data of the owner is unchanged.
    async fn is_untouched(&self) {
        let client = &self.client;
        for name in ["tool", "put", "ext"] {
            let tool = client.get(&format!("/tools/{MARK}_{name}")).await.ok();
            assert_eq!((&tool["revision"], &tool["active"]), (&json!(1), &json!(true)), "{tool}");
        }
        assert_eq!(client.get(&format!("/tool-groups/{MARK}_group")).await.ok()["active"], true);
        assert_eq!(client.get(&format!("/tools/{MARK}_tool/presets")).await.ok(), json!({}));
        assert_eq!(client.get(&format!("/hooks/{}", self.hook)).await.status, 200);
        assert_eq!(client.get(&format!("/keys/{}", self.key)).await.ok()["revoked_at"], Value::Null);
        let session = client.get(&format!("/sessions/{MARK}_session")).await.ok();
        assert_eq!(
            (&session["state"], session["tool_calls"].as_array().unwrap().len()),
            (&json!("ACTIVE"), 2),
            "{session}"
        );
        let waiting = client.in_phase(&self.waiting, "external").await;
        assert_eq!((&waiting["status"], &waiting["tip"]), (&json!("DOING"), &Value::Null), "{waiting}");
        assert_eq!(client.stored(&self.partial).await["phase"], "arguments");
        assert_eq!(client.stats(&format!("{MARK}_tool")).await["success_count"], 1);
    }
}

async fn ask(client: &Client, method: &str, path: &str, body: Option<&Value>) -> crate::support::Response {
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let request = client.request(method, path);
    // MCP selects the response format by this header; other routes ignore it.
    let request =
        if path == "/mcp" { request.header("accept", "application/json, text/event-stream") } else { request };
    send(match body {
        Some(Value::String(text)) => request.header("content-type", "text/event-stream").body(text.clone()),
        Some(body) => request.json(body),
        None => request,
    })
    .await
}
