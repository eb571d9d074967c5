//! Every route × every kind of id × another tenant, the operator and no key. A route without a case fails the test.

use serde_json::{Value, json};

use super::{MARK, Owner, ask, service, service_with, tenant};
use crate::support::{App, Backend, Client, Options};

/// The result of a route for another tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedView {
    /// 404: the resource is not found.
    Nothing,
    /// A list without data of the other tenant.
    OwnList,
    /// A resource of the tenant itself is created or changed.
    OwnChange,
    /// A stream without data of the other tenant.
    OwnStream,
    /// 405: it exists only in a session.
    NotThere,
    /// 403: reserved for the operator.
    Operators,
    /// 403 for tenants: the operator sees data of all tenants together.
    Forbidden,
    /// A public resource, without authentication.
    Open,
    /// 401: a key that does not exist, whatever key the request has.
    SignIn,
}

/// A request and its expected result.
struct Case {
    path: String,
    body: Option<Value>,
    sees: ExpectedView,
}

/// Returns an API description with one operation.
fn document() -> Value {
    let responses = json!({"200": {"description": "all well"}});
    let operation = json!({"operationId": "own_operation", "responses": responses});
    json!({"openapi": "3.1.0", "info": {"title": "own", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/own": {"get": operation}}})
}

/// Returns the case of a route with the owner's ids.
fn case(owner: &Owner, method: &str, route: &str) -> Case {
    use ExpectedView::{Forbidden, NotThere, Nothing, Open, Operators, OwnChange, OwnList, OwnStream, SignIn};
    let Owner { ended, waiting, partial, hook, key, .. } = owner;
    let tool = json!({"description": "own", "executor": {"type": "builtin", "name": "echo"}});
    let named = |name: &str| {
        let mut tool = tool.clone();
        tool["name"] = name.into();
        Some(tool)
    };
    let (kind, body, sees) = match (method, route) {
        ("get", "/tools" | "/tool-groups" | "/stats" | "/hooks" | "/keys" | "/tool-calls" | "/sessions") => {
            ("", None, OwnList)
        }
        ("get", "/approvals" | "/policies" | "/budgets") => ("", None, OwnList),
        ("get", "/workers") => ("", None, OwnList),
        ("post", "/workers/{queue}/claim") => ("queue", Some(json!({"worker": "w", "max": 64})), OwnChange),
        ("post", "/workers/{queue}/heartbeat") => {
            ("queue", Some(json!({"worker": "w", "calls": [waiting]})), OwnChange)
        }
        ("post", "/workers/{queue}/results") => {
            ("queue", Some(json!({"worker": "w", "results": [{"id": waiting, "token": "1.AAAA"}]})), OwnChange)
        }
        ("put", "/workers/{queue}/tools") => ("queue", Some(json!({"worker": "w", "tools": []})), OwnChange),
        ("post", "/policies") => ("", Some(json!({"name": "own", "when": "false", "effect": "deny"})), OwnChange),
        ("post", "/budgets") => {
            ("", Some(json!({"name": "own", "window_ms": 1000, "max_calls": 1_000_000})), OwnChange)
        }
        ("put", "/budgets/{name}") => ("put", Some(json!({"window_ms": 1000, "max_calls": 1_000_000})), OwnChange),
        ("get" | "delete", "/budgets/{name}") => ("budget", None, Nothing),
        ("put", "/policies/{name}") => ("put", Some(json!({"when": "false", "effect": "deny"})), OwnChange),
        ("get" | "delete", "/policies/{name}") => ("policy", None, Nothing),
        ("post", "/policies/test") => ("", Some(json!({"policies": [], "since": "2020-01-01T00:00:00Z"})), OwnChange),
        ("post", "/tools") => ("", named("own_tool"), OwnChange),
        ("put", "/tools/{name}") => ("put", Some(tool.clone()), OwnChange),
        ("get" | "delete", "/tools/{name}" | "/tools/{name}/stats") => ("ext", None, Nothing),
        ("get", "/tools/{name}/presets") => ("tool", None, Nothing),
        ("put", "/tools/{name}/presets") => ("tool", Some(json!({"m": {"value": "x"}})), Nothing),
        ("post", "/tools/{name}/validate") => ("tool", Some(json!({"arguments": {}})), Nothing),
        ("post", "/tools/{name}/resume") => ("tool", None, Nothing),
        ("post", "/imports/openapi") => ("", Some(document()), OwnChange),
        // `GET` and `DELETE` require a session for every client.
        ("get" | "delete", "/mcp") => ("", None, NotThere),
        ("get", "/upstreams") => ("", None, OwnList),
        // Reserved for the operator, whose servers are shared by all tenants.
        ("post", "/upstreams") => ("", Some(json!({"name": "own", "url": "https://127.0.0.1:9/mcp"})), Operators),
        ("get" | "delete", "/upstreams/{name}") => ("tool", None, Nothing),
        ("post", "/upstreams/{name}/restart" | "/upstreams/{name}/accept") => ("tool", Some(json!({})), Nothing),
        ("post", "/mcp") => ("", Some(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})), OwnChange),
        ("delete", "/stats") => ("", None, OwnChange),
        ("post", "/tool-groups") => ("", Some(json!({"name": "own_group"})), OwnChange),
        ("patch", "/tool-groups") => ("", Some(json!({"deactivate": [format!("{MARK}_group")]})), Nothing),
        ("get" | "delete", "/tool-groups/{name}") => ("group", None, Nothing),
        ("patch", "/tool-groups/{name}") => ("group", Some(json!({"active": false})), Nothing),
        ("post", "/hooks") => ("", Some(json!({"event": "after_tool_call", "url": "http://127.0.0.1:9/"})), OwnChange),
        ("get" | "delete", "/hooks/{id}") => (hook.as_str(), None, Nothing),
        ("post", "/keys") => ("", Some(json!({"scopes": ["read"]})), OwnChange),
        ("get" | "delete", "/keys/{id}") => (key.as_str(), None, Nothing),
        ("post", "/tool-calls") => ("", Some(json!({"name": "echo", "arguments": {}})), OwnChange),
        ("post", "/tool-calls/stream") => ("", Some(json!("data: [DONE]\n\n")), OwnChange),
        ("get", "/tool-calls/{id}" | "/tool-calls/{id}/events" | "/tool-calls/{id}/output") => {
            (ended.as_str(), None, Nothing)
        }
        ("get", "/tool-calls/{id}/content/{n}") => (ended.as_str(), None, Nothing),
        ("patch", "/tool-calls/{id}/arguments") => (partial.as_str(), Some(json!({"delta": "x"})), Nothing),
        ("post", "/tool-calls/{id}/rerun") => (ended.as_str(), Some(json!({})), Nothing),
        ("post", "/tool-calls/cancel") => ("", Some(json!({"ids": [waiting, partial]})), OwnChange),
        ("post", "/tool-calls/{id}/cancel") => (waiting.as_str(), None, Nothing),
        ("post", "/tool-calls/{id}/progress") => (waiting.as_str(), Some(json!({"tip": "x"})), Nothing),
        ("post", "/tool-calls/{id}/result") => (waiting.as_str(), Some(json!("x")), Nothing),
        ("get", "/events" | "/approvals/events") => ("", None, OwnStream),
        ("post", "/tool-calls/{id}/approval") => {
            (waiting.as_str(), Some(json!({"decision": "reject", "digest": "x"})), Nothing)
        }
        ("post", "/events/ticket") => ("", Some(json!({"path": "/events"})), OwnChange),
        ("post", "/sessions") => ("", Some(json!({"id": "own_session"})), OwnChange),
        ("get" | "delete", "/sessions/{id}") => ("session", None, Nothing),
        ("get", "/sessions/{id}/events" | "/sessions/{id}/messages" | "/sessions/{id}/prompt") => {
            ("session", None, Nothing)
        }
        ("post", "/sessions/{id}/abort") => ("session", None, Nothing),
        ("post", "/sessions/{id}/complete") => ("session", Some(json!({"success": true, "summary": "x"})), Nothing),
        ("get", "/healthz" | "/readyz") => ("", None, Open),
        ("post", "/console/login") => ("", Some(json!({"key": "tp_none"})), SignIn),
        ("post", "/console/logout") => ("", None, Open),
        ("get", "/whoami") => ("", None, OwnList),
        ("get", "/metrics" | "/system") => ("", None, Forbidden),
        _ => panic!("{method} {route} has no case: say what another tenant sees of it"),
    };
    let id = match kind {
        "put" | "ext" | "tool" | "group" | "session" | "policy" | "budget" => format!("{MARK}_{kind}"),
        id => id.to_owned(),
    };
    let path = route.replace("{name}", &id).replace("{queue}", &id).replace("{id}", &id).replace("{n}", "0");
    // Only the stream has a text body; other routes wrap the text in an object.
    let is_stream = route == "/tool-calls/stream";
    let body = body.map(|body| if body.is_string() && !is_stream { json!({"output": body}) } else { body });
    Case { path, body, sees }
}

async fn routes(app: &App) -> Vec<(String, String)> {
    let document = app.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()));
        methods.collect::<Vec<_>>()
    };
    let routes: Vec<_> = paths.iter().flat_map(of).collect();
    assert!(routes.len() > 40, "{routes:?}");
    routes
}

/// Sends every case as a stranger and checks the responses.
async fn tried(stranger: &Client, owner: &Owner, cases: &[(String, Case)], is_operator: bool) {
    // Lists come first, because changes create resources with the names of the owner.
    let in_order = [
        ExpectedView::OwnList,
        ExpectedView::OwnStream,
        ExpectedView::Open,
        ExpectedView::SignIn,
        ExpectedView::Forbidden,
        ExpectedView::Nothing,
        ExpectedView::NotThere,
        ExpectedView::Operators,
        ExpectedView::OwnChange,
    ];
    let cases = in_order.into_iter().flat_map(|sees| cases.iter().filter(move |(_, case)| case.sees == sees));
    for (method, case) in cases {
        let what = format!("{method} {}", case.path);
        if (case.path.starts_with("/keys") || case.sees == ExpectedView::Operators) && is_operator {
            continue;
        }
        if case.sees == ExpectedView::OwnStream {
            sees_only_own(stranger, owner, &case.path).await;
            continue;
        }
        let answer = ask(stranger, method, &case.path, case.body.as_ref()).await;
        match case.sees {
            ExpectedView::Nothing => {
                let text = answer.text();
                assert_eq!(answer.status, 404, "{what}: {text}");
            }
            ExpectedView::SignIn => assert_eq!(answer.status, 401, "{what}: {}", answer.text()),
            ExpectedView::NotThere => assert_eq!(answer.status, 405, "{what}: {}", answer.text()),
            ExpectedView::Operators => assert_eq!(answer.status, 403, "{what}: {}", answer.text()),
            ExpectedView::Forbidden if is_operator => assert_eq!(answer.status, 200, "{what}: {}", answer.text()),
            ExpectedView::Forbidden => {
                assert!(!answer.text().contains(MARK), "{what}: {}", answer.text());
                assert_eq!(answer.problem(403)["code"], "FORBIDDEN", "{what}");
            }
            ExpectedView::OwnList | ExpectedView::OwnChange | ExpectedView::Open => {
                assert!((200..300).contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
                let is_own = case.path.contains(MARK) || !answer.text().contains(MARK);
                assert!(is_own, "{what}: {}", answer.text());
            }
            ExpectedView::OwnStream => unreachable!(),
        }
    }
}

/// Checks that the stranger's streams, live and from the beginning, have no events of the owner.
async fn sees_only_own(stranger: &Client, owner: &Owner, path: &str) {
    let mut live = stranger.events(path).await;
    let mut whole = stranger.events(&format!("{path}?after=0")).await;
    if path.starts_with("/approvals") {
        // Only calls that need approval have events there; their ids are in each event.
        let tool = json!({"description": "", "input_schema": {"type": "object"}, "approval": {},
            "executor": {"type": "builtin", "name": "echo"}});
        for (client, id) in [(&owner.client, MARK), (stranger, "last")] {
            client.put("/tools/asking", &tool).await;
            assert_eq!(client.post("/tool-calls", &json!({"name": "asking", "id": id})).await.status, 202);
        }
        for stream in [&mut live, &mut whole] {
            let seen = stream.until(|event| event.data["call_id"] == "last").await;
            assert!(seen.iter().all(|event| !event.data.to_string().contains(MARK)), "{seen:?}");
        }
        return;
    }
    let mark = json!({"m": MARK});
    owner.client.call_with(json!({"name": "echo", "arguments": mark, "session": "marker_a_session_2"})).await;
    stranger.call_with(json!({"name": "echo", "arguments": {"m": "last"}})).await;
    for stream in [&mut live, &mut whole] {
        let seen = stream.until(|event| event.is_result() && event.data.to_string().contains("last")).await;
        assert!(!seen.is_empty() && seen.iter().all(|event| !event.data.to_string().contains(MARK)), "{seen:?}");
    }
}

on_both_databases!(
    async fn no_route_shows_or_changes_anything_of_another_tenant(backend: Backend) {
        let (app, operator) = service(backend).await;
        let owner = Owner::made(&operator).await;
        let cases: Vec<(String, Case)> = routes(&app)
            .await
            .into_iter()
            .map(|(method, route)| (method.clone(), case(&owner, &method, &route)))
            .collect();
        // Requests without a key come first, before the other clients create anything.
        for (method, case) in &cases {
            let answer = ask(&app, method, &case.path, case.body.as_ref()).await;
            let what = format!("{method} {}: {}", case.path, answer.text());
            if case.sees == ExpectedView::Open {
                assert!((200..300).contains(&answer.status), "{what}");
            } else if case.sees == ExpectedView::SignIn {
                assert_eq!(answer.problem(401)["code"], "INVALID_KEY", "{what}");
            } else {
                assert!(answer.header("www-authenticate").starts_with("Bearer"), "{what}");
                assert_eq!(answer.problem(401)["code"], "UNAUTHORIZED", "{what}");
            }
        }
        tried(&tenant(&operator, "b").await, &owner, &cases, false).await;
        // The operator manages all keys and reads metrics, and sees nothing else of the tenants.
        tried(&operator, &owner, &cases, true).await;
        owner.is_untouched().await;
    }
);

on_both_databases!(
    async fn invalid_key_opens_no_protected_route(backend: Backend) {
        let (app, operator) =
            service_with(backend, Options { configure: Some(|config| config.auth.failures = 0), ..Options::default() })
                .await;
        let owner = Owner::made(&operator).await;
        let stranger = app.with_key("tp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        for (method, route) in routes(&app).await {
            let case = case(&owner, &method, &route);
            let answer = ask(&stranger, &method, &case.path, case.body.as_ref()).await;
            if case.sees != ExpectedView::Open {
                assert_eq!(answer.problem(401)["code"], "INVALID_KEY", "{method} {route}");
            }
        }
        owner.is_untouched().await;
    }
);
