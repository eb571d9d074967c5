//! Every route × a key with a tool restriction: the route shows and changes no call of another tool. A route without a
//! case fails the test.

use reqwest::Method;
use serde_json::{Value, json};

use super::{keyed, service};
use crate::support::app::echo_tool;
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::{App, Backend, Client, Response, eventually};

/// A part of every text that belongs to the other tools.
const MARK: &str = "marker";

/// The expected response of a route for a key with a tool restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedView {
    /// 404: for this key, the tool or the call does not exist.
    Nothing,
    /// 403: the route also concerns other tools.
    Refused,
    /// A status below 500, and no data of other tools.
    Own,
    /// A stream without events of other tools' calls.
    OwnStream,
}

/// Calls of tools that the key excludes.
struct ExcludedCalls {
    ended: String,
    waiting: String,
    partial: String,
    /// The session of a task. A call of another tool waits for this task.
    task: String,
    task_call: String,
}

impl ExcludedCalls {
    async fn made(operator: &Client) -> Self {
        let any = json!({"type": "object"});
        operator.register(echo_tool("marker.echo", any.clone())).await;
        let external = json!({"type": "external"});
        operator
            .register(json!({"name": "marker.ext", "description": "x", "input_schema": any, "executor": external}))
            .await;
        let session = json!({"id": "s", "tools": ["marker.echo", "marker.ext", "new_task", "echo"]});
        assert_eq!(operator.post("/sessions", &session).await.status, 201);
        let call = |name: &str| json!({"name": name, "arguments": {"m": MARK}, "session": "s"});
        let ended = operator.call_with(call("marker.echo")).await;
        assert_eq!(ended["status"], "SUCCESS", "{ended}");
        let mut waiting = call("marker.ext");
        waiting["wait"] = "accepted".into();
        let waiting = operator.accepted(waiting).await;
        operator.in_phase(&waiting, "external").await;
        let partial = json!({"name": "marker.echo", "partial": true, "arguments": "{\"m"});
        let partial = operator.accepted(partial).await;
        let arguments = json!({"agent_name": "a", "task_name": "b", "input": MARK});
        let task_call = operator.accepted(json!({"name": "new_task", "arguments": arguments, "session": "s"})).await;
        let task = eventually("the session of the task", || async {
            operator.stored(&task_call).await["metadata"]["session"].as_str().map(str::to_owned)
        });
        Self { ended: id_of(&ended), waiting, partial, task: task.await, task_call }
    }

    async fn are_untouched(&self, operator: &Client) {
        assert_eq!(operator.stored(&self.waiting).await["status"], "DOING");
        assert_eq!(operator.stored(&self.waiting).await["tip"], Value::Null);
        assert_eq!(operator.stored(&self.partial).await["phase"], "arguments");
        assert_eq!(operator.stored(&self.task_call).await["status"], "DOING");
        for session in ["s", &self.task] {
            assert_eq!(operator.get(&format!("/sessions/{session}")).await.ok()["state"], "ACTIVE");
        }
        let calls = operator.get("/sessions/s").await.ok();
        assert_eq!(calls["tool_calls"].as_array().unwrap().len(), 3, "{calls}");
    }
}

/// Returns the id, the body and the expectation for a route.
fn case(others: &ExcludedCalls, method: &str, route: &str) -> (String, Option<Value>, ExpectedView) {
    use ExpectedView::{Nothing, Own, OwnStream, Refused};
    let ExcludedCalls { ended, waiting, partial, task, .. } = others;
    let tool = json!({"description": "own", "executor": {"type": "builtin", "name": "echo"}});
    let (id, body, sees) = match (method, route) {
        ("get", "/tools" | "/tool-groups" | "/stats" | "/hooks" | "/keys" | "/tool-calls" | "/sessions") => {
            ("", None, Own)
        }
        ("get", "/upstreams" | "/healthz" | "/readyz" | "/approvals") => ("", None, Own),
        ("get", "/budgets") => ("", None, Own),
        ("post", "/budgets") => ("", Some(json!({"name": "own", "window_ms": 1000, "max_calls": 9})), Refused),
        ("put", "/budgets/{name}") => ("own", Some(json!({"window_ms": 1000, "max_calls": 9})), Refused),
        ("get", "/budgets/{name}") => ("own", None, Own),
        ("delete", "/budgets/{name}") => ("own", None, Refused),
        ("get", "/workers") => ("", None, Own),
        ("post", "/workers/{queue}/claim") => ("q", Some(json!({"worker": "w", "max": 64})), Own),
        ("post", "/workers/{queue}/heartbeat") => ("q", Some(json!({"worker": "w", "calls": [waiting]})), Own),
        ("post", "/workers/{queue}/results") => {
            ("q", Some(json!({"worker": "w", "results": [{"id": waiting, "token": "1.AAAA"}]})), Own)
        }
        ("put", "/workers/{queue}/tools") => {
            let tools = json!([{"name": "marker.new", "input_schema": {"type": "object"}}]);
            ("q", Some(json!({"worker": "w", "tools": tools})), Refused)
        }
        ("get", "/policies") => ("", None, Own),
        ("post", "/policies") => ("", Some(json!({"name": "own", "when": "false", "effect": "deny"})), Refused),
        ("put", "/policies/{name}") => ("own", Some(json!({"when": "false", "effect": "deny"})), Refused),
        ("get", "/policies/{name}") => ("own", None, Own),
        ("delete", "/policies/{name}") => ("own", None, Refused),
        ("post", "/policies/test") => ("", Some(json!({"policies": [], "since": "2020-01-01T00:00:00Z"})), Refused),
        ("post", "/tools") => ("", Some(echo_tool("marker.new", json!({"type": "object"}))), Refused),
        ("put", "/tools/{name}") => ("marker.echo", Some(tool), Refused),
        ("get" | "delete", "/tools/{name}" | "/tools/{name}/stats") => ("marker.echo", None, Nothing),
        ("get", "/tools/{name}/presets") => ("marker.echo", None, Nothing),
        ("put", "/tools/{name}/presets") => ("marker.echo", Some(json!({})), Nothing),
        ("post", "/tools/{name}/validate") => ("marker.echo", Some(json!({"arguments": {}})), Nothing),
        ("post", "/tools/{name}/resume") => ("marker.echo", None, Nothing),
        ("post", "/imports/openapi") => ("", Some(json!({})), Own),
        ("post", "/upstreams") => ("", Some(json!({"name": "own", "url": "http://127.0.0.1:9/mcp"})), Refused),
        ("get", "/upstreams/{name}") => ("marker", None, Own),
        ("delete", "/upstreams/{name}") => ("own", None, Refused),
        ("post", "/upstreams/{name}/restart" | "/upstreams/{name}/accept") => ("own", Some(json!({})), Refused),
        ("get" | "post" | "delete", "/mcp") => ("", Some(json!({})), Own),
        ("delete", "/stats") => ("", None, Refused),
        ("post", "/tool-groups") => ("", Some(json!({"name": "g"})), Refused),
        ("patch", "/tool-groups") => ("", Some(json!({"deactivate": ["own"]})), Refused),
        ("get", "/tool-groups/{name}") => ("own", None, Own),
        ("patch", "/tool-groups/{name}") => ("own", Some(json!({"active": false})), Refused),
        ("delete", "/tool-groups/{name}") => ("own", None, Refused),
        ("post", "/hooks") => ("", Some(json!({"event": "after_tool_call", "url": "http://127.0.0.1:9/"})), Refused),
        ("delete", "/hooks/{id}") => ("0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f", None, Refused),
        ("get", "/hooks/{id}") => ("none", None, Own),
        ("post", "/keys") => ("", Some(json!({"scopes": ["read"]})), Refused),
        ("get" | "delete", "/keys/{id}") => ("none", None, Own),
        ("post", "/tool-calls") => ("", Some(json!({"name": "echo", "arguments": {}})), Own),
        ("post", "/tool-calls/stream") => ("", Some(json!("data: [DONE]\n\n")), Own),
        ("get", "/tool-calls/{id}" | "/tool-calls/{id}/events" | "/tool-calls/{id}/output") => {
            (ended.as_str(), None, Nothing)
        }
        ("get", "/tool-calls/{id}/content/{n}") => (ended.as_str(), None, Nothing),
        ("patch", "/tool-calls/{id}/arguments") => {
            (partial.as_str(), Some(json!({"delta": "\": 1}", "final": true})), Nothing)
        }
        ("post", "/tool-calls/cancel") => ("", Some(json!({"ids": [waiting]})), Own),
        ("post", "/tool-calls/{id}/cancel") => (waiting.as_str(), None, Nothing),
        ("post", "/tool-calls/{id}/rerun") => (ended.as_str(), None, Nothing),
        ("post", "/tool-calls/{id}/progress") => (waiting.as_str(), Some(json!({"tip": "x"})), Nothing),
        ("post", "/tool-calls/{id}/result") => (waiting.as_str(), Some(json!({"output": "x"})), Nothing),
        ("get", "/events" | "/approvals/events") => ("", None, OwnStream),
        ("post", "/tool-calls/{id}/approval") => {
            (waiting.as_str(), Some(json!({"decision": "reject", "digest": "x"})), Nothing)
        }
        ("post", "/events/ticket") => ("", Some(json!({"path": "/events"})), Own),
        ("post", "/sessions") => ("", Some(json!({"id": "own"})), Own),
        // The tools that a session names are not calls.
        ("get", "/sessions/{id}") => ("s", None, Own),
        ("get", "/sessions/{id}/messages" | "/sessions/{id}/prompt") => ("s", None, Own),
        ("get", "/sessions/{id}/events") => ("s", None, OwnStream),
        ("delete", "/sessions/{id}") => ("s", None, Refused),
        ("post", "/sessions/{id}/abort") => (task.as_str(), None, Refused),
        ("post", "/sessions/{id}/complete") => (task.as_str(), Some(json!({"success": true, "summary": "x"})), Refused),
        ("post", "/console/login") => ("", Some(json!({"key": "tp_x"})), Own),
        ("post", "/console/logout") => ("", None, Own),
        ("get", "/whoami") => ("", None, Own),
        ("get", "/metrics" | "/system") => ("", None, Refused),
        _ => panic!("{method} {route} has no case: say what a key for other tools sees of it"),
    };
    (route.replace("{name}", id).replace("{queue}", id).replace("{id}", id).replace("{n}", "0"), body, sees)
}

async fn ask(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Response {
    let request = client.request(Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(), path);
    send(match body {
        Some(Value::String(text)) => request.header("content-type", "text/event-stream").body(text.clone()),
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

/// Checks the stored and live events of a stream up to a call of the key's own tool.
async fn sees_only_own(client: &Client, operator: &Client, path: &str) {
    let mut live = client.events(path).await;
    let mut whole = client.events(&format!("{path}?after=0")).await;
    if path.starts_with("/approvals") {
        // Only calls that need approval have events there; their ids are in each event.
        let policy = json!({"when": "tool.name.endsWith('echo')", "effect": "approve"});
        operator.put("/policies/ask", &policy).await.ok();
        for (client, name, id) in [(operator, "marker.echo", MARK), (client, "echo", "last")] {
            let accepted = client.post("/tool-calls", &json!({"name": name, "id": id})).await;
            assert_eq!(accepted.status, 202, "{}", accepted.text());
        }
        operator.delete("/policies/ask").await;
        for stream in [&mut live, &mut whole] {
            let seen = stream.until(|event| event.data["call_id"] == "last").await;
            assert!(seen.iter().all(|event| !event.data.to_string().contains(MARK)), "{seen:?}");
        }
        return;
    }
    let other = json!({"name": "marker.echo", "arguments": {"m": MARK}, "session": "other"});
    operator.call_with(other).await;
    let session = path.strip_prefix("/sessions/").map_or("own", |rest| rest.split('/').next().unwrap());
    client.call_with(json!({"name": "echo", "arguments": {"m": path}, "session": session})).await;
    for stream in [&mut live, &mut whole] {
        let seen = stream.until(|event| event.is_result() && event.data["output"].to_string().contains(path)).await;
        assert!(seen.iter().all(|event| !event.data.to_string().contains(MARK)), "{path}: {seen:?}");
    }
}

async fn routes(app: &App) -> Vec<(String, String)> {
    let document = app.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

on_both_databases!(
    async fn no_route_shows_or_changes_a_call_of_an_unlisted_tool(backend: Backend) {
        let (app, operator) = service(backend).await;
        assert_eq!(operator.post("/tool-groups", &json!({"name": "own"})).await.status, 201);
        let others = ExcludedCalls::made(&operator).await;
        let client = keyed(&operator, json!({"scopes": ["admin"], "tools": ["echo"]})).await;
        let mut streams = Vec::new();
        for (method, route) in routes(&app).await {
            let (path, body, sees) = case(&others, &method, &route);
            if sees == ExpectedView::OwnStream {
                streams.push(path);
                continue;
            }
            let answer = ask(&client, &method, &path, body.as_ref()).await;
            let what = format!("{method} {path}: {} {}", answer.status, answer.text());
            match sees {
                ExpectedView::Nothing => assert_eq!(answer.status, 404, "{what}"),
                ExpectedView::Refused => assert_eq!(answer.status, 403, "{what}"),
                ExpectedView::Own | ExpectedView::OwnStream => {
                    assert!(answer.status < 500, "{what}");
                    // Sessions name their tools, and keys name the tools that they allow.
                    let names = ["/sessions", "/keys"].iter().any(|one| path.starts_with(one));
                    let mut json = answer.json.clone();
                    if names {
                        json = without_tools(json);
                    }
                    let text = if names && !json.is_null() { json.to_string() } else { answer.text() };
                    let is_in_path = path.contains(MARK);
                    assert!(is_in_path || !text.contains(MARK), "{what}");
                }
            }
        }
        others.are_untouched(&operator).await;
        assert_eq!(streams.len(), 3);
        for path in streams {
            sees_only_own(&client, &operator, &path).await;
        }
    }
);

/// Removes the tool names and tasks with which sessions and keys were created.
fn without_tools(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(name, _)| !["tools", "task"].contains(&name.as_str()))
            .map(|(name, value)| (name, without_tools(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_tools).collect(),
        other => other,
    }
}
