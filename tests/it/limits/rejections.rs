//! The documented HTTP rejections: each limit in the reference that is answered by HTTP is exceeded here.

use serde_json::{Value, json};
use toolpost::config::Config;
use toolpost::config::limits::{CATALOG, LimitAction};

use crate::jwt;
use crate::support::app::{echo_tool, http_tool};
use crate::support::calls::gated;
use crate::support::raw::{connect, exchange, to_the_end};
use crate::support::stall::Stall;
use crate::support::{App, Backend, Client, Response};

/// The response of a request that exceeds a limit.
#[derive(Debug, PartialEq)]
struct LimitResponse {
    status: u16,
    code: String,
    has_retry_after: bool,
}

impl From<Response> for LimitResponse {
    fn from(answer: Response) -> Self {
        let has_retry_after = answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0);
        let (status, problem) = (answer.status, answer.problem_of_any_status());
        Self { status, code: problem["code"].as_str().unwrap().to_owned(), has_retry_after }
    }
}

/// Parses a raw HTTP response.
impl From<String> for LimitResponse {
    fn from(answer: String) -> Self {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
        let problem: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no problem: {answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let has_retry_after = head.to_ascii_lowercase().contains("\r\nretry-after: ");
        Self { status, code: problem["code"].as_str().unwrap().to_owned(), has_retry_after }
    }
}

async fn tuned(configure: fn(&mut Config)) -> App {
    App::tuned(Backend::Sqlite, configure).await
}

/// Creates a key with this scope and returns a client with it. From then on, the service requires a key.
async fn keyed(app: &App, scope: &str) -> Client {
    let (key, _) = app.key(json!({"scopes": [scope]})).await;
    app.with_key(&key)
}

/// Posts an accepted body and then another one of the same kind.
async fn twice(app: &App, path: &str, bodies: [Value; 2]) -> LimitResponse {
    let first = app.post(path, &bodies[0]).await;
    assert!([200, 201, 202].contains(&first.status), "{}", first.text());
    app.post(path, &bodies[1]).await.into()
}

/// Exceeds one limit.
async fn beyond(setting: &str) -> LimitResponse {
    let echo = json!({"name": "echo"});
    match setting {
        "server.max_connections" => {
            let app = tuned(|config| config.server.max_connections = 1).await;
            let _only = app.events("/events").await;
            to_the_end(&mut connect(&app).await).await.into()
        }
        "server.header_timeout_ms" => {
            let app = tuned(|config| config.server.header_timeout_ms = 50).await;
            exchange(&app, "GET /healthz HTTP/1.1\r\nx: ", b"").await.into()
        }
        "server.max_header_bytes" => {
            let app = tuned(|config| config.server.max_header_bytes = 8192).await;
            let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(100_000));
            exchange(&app, &head, b"").await.into()
        }
        "server.body_timeout_ms" => {
            let app = tuned(|config| config.server.body_timeout_ms = 50).await;
            let head = "POST /tool-calls HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\
                connection: close\r\n\r\n";
            exchange(&app, head, b"{").await.into()
        }
        "server.max_body_bytes" => {
            let app = tuned(|config| config.server.max_body_bytes = 100).await;
            app.post_raw("/tool-calls", " ".repeat(101)).await.into()
        }
        "server.max_batch_calls" => {
            let app = tuned(|config| config.server.max_batch_calls = 2).await;
            let of = |count| json!({"calls": vec![json!({"name": "echo"}); count]});
            twice(&app, "/tool-calls", [of(2), of(3)]).await
        }
        "server.max_in_flight_mib" => {
            let app = tuned(|config| config.server.max_in_flight_mib = 1).await;
            let server = gated("done").await;
            app.http_tool("act", &server).await;
            let running = app.posted(json!({"name": "act", "arguments": {"text": "x".repeat(300_000)}}));
            server.received(1).await;
            let response = app.post("/tool-calls", &echo).await.into();
            server.open();
            running.await.unwrap().ok();
            response
        }
        "server.max_backlog" => behind(tuned(|config| backlog(config, 1, 0, 60_000)).await, 1).await,
        "server.burst" => behind(tuned(|config| backlog(config, 1, 3, 60_000)).await, 3).await,
        "server.burst_ms" => behind(tuned(|config| backlog(config, 1, 1000, 0)).await, 1).await,
        "store.patience_ms" => {
            let app = tuned(|config| config.store.patience_ms = 50).await;
            let stall = Stall::begin(&app).await;
            let response = app.post("/tool-calls", &echo).await.into();
            stall.end().await;
            response
        }
        "queue.max_length" => {
            let app = tuned(|config| config.queue.max_length = 1).await;
            let server = gated("done").await;
            app.http_tool("act", &server).await;
            let body = json!({"name": "act", "wait": "accepted"});
            let response = twice(&app, "/tool-calls", [body.clone(), body]).await;
            server.open();
            response
        }
        "auth.rate" => {
            let app = tuned(|config| config.auth.rate = 1).await;
            let client = keyed(&app, "read").await;
            client.get("/stats").await.ok();
            client.get("/stats").await.into()
        }
        "auth.concurrency" => {
            let app = tuned(|config| config.auth.concurrency = 1).await;
            let client = keyed(&app, "read").await;
            let _only = client.events("/events").await;
            client.get("/stats").await.into()
        }
        "auth.failures" => {
            let app = tuned(|config| config.auth.failures = 1).await;
            let _operator = keyed(&app, "read").await;
            app.with_key("tp_wrong").get("/stats").await.problem(401);
            app.with_key("tp_wrong").get("/stats").await.into()
        }
        "auth.jwt.rate" => {
            let service = jwt::tuned(|config| config.auth.jwt.rate = 1).await;
            service.as_subject("me").get("/stats").await.ok();
            service.as_subject("me").get("/stats").await.into()
        }
        "auth.jwt.concurrency" => {
            let service = jwt::tuned(|config| config.auth.jwt.concurrency = 1).await;
            let _only = service.as_subject("me").events("/events").await;
            service.as_subject("me").get("/stats").await.into()
        }
        "events.max_subscribers" => {
            let app = tuned(|config| config.events.max_subscribers = 1).await;
            let _only = app.events("/events").await;
            app.get("/events").await.into()
        }
        "events.max_subscribers_per_key" => {
            let app = tuned(|config| config.events.max_subscribers_per_key = 1).await;
            let client = keyed(&app, "read").await;
            let _only = client.events("/events").await;
            client.get("/events").await.into()
        }
        "tenants.max_tools" => {
            let app = tuned(|config| config.tenants.max_tools = 1).await;
            twice(&app, "/tools", ["a", "b"].map(|name| echo_tool(name, json!({"type": "object"})))).await
        }
        "tenants.max_groups" => {
            let app = tuned(|config| config.tenants.max_groups = 1).await;
            twice(&app, "/tool-groups", ["a", "b"].map(|name| json!({"name": name}))).await
        }
        "tenants.max_hooks" => {
            let app = tuned(|config| config.tenants.max_hooks = 1).await;
            let hook = json!({"event": "after_tool_call", "url": "http://127.0.0.1:1/"});
            twice(&app, "/hooks", [hook.clone(), hook]).await
        }
        "tenants.max_policies" => {
            let app = tuned(|config| config.tenants.max_policies = 1).await;
            let policy = |name: &str| json!({"name": name, "when": "false", "effect": "deny"});
            twice(&app, "/policies", ["a", "b"].map(policy)).await
        }
        "tenants.max_budgets" => {
            let app = tuned(|config| config.tenants.max_budgets = 1).await;
            let budget = |name: &str| json!({"name": name, "window_ms": 1000, "max_calls": 1});
            twice(&app, "/budgets", ["a", "b"].map(budget)).await
        }
        "tenants.max_sessions" => {
            let app = tuned(|config| config.tenants.max_sessions = 1).await;
            twice(&app, "/sessions", ["a", "b"].map(|id| json!({"id": id}))).await
        }
        "tenants.max_keys" => {
            let app = tuned(|config| config.tenants.max_keys = 1).await;
            keyed(&app, "admin").await.post("/keys", &json!({"scopes": ["read"]})).await.into()
        }
        other => panic!("{other} is in the list, and nobody shows what whoever is beyond it is told"),
    }
}

fn backlog(config: &mut Config, max: usize, burst: usize, burst_ms: u64) {
    let server = &mut config.server;
    (server.max_backlog, server.burst, server.burst_ms) = (max, burst, burst_ms);
}

/// Submits one call more than the backlog accepts while the database stalls. The accepted calls end normally.
async fn behind(app: App, taken: usize) -> LimitResponse {
    let stall = Stall::begin(&app).await;
    let mut waiting = Vec::new();
    for count in 1..=taken {
        waiting.push(app.posted(json!({"name": "echo"})));
        stall.holds(&app, count).await;
    }
    let response = app.post("/tool-calls", &json!({"name": "echo"})).await.into();
    stall.end().await;
    for waiting in waiting {
        waiting.await.unwrap().ok();
    }
    response
}

/// Checks all limits whose setting has this prefix.
async fn hold(section: &str) {
    let mut tried = 0;
    for limit in CATALOG.iter().filter(|limit| limit.setting.starts_with(section)) {
        let LimitAction::Reject(status, code) = limit.beyond else { continue };
        let expected = LimitResponse { status, code: code.to_owned(), has_retry_after: [429, 503].contains(&status) };
        assert_eq!(beyond(limit.setting).await, expected, "{}", limit.setting);
        tried += 1;
    }
    assert!(tried > 0, "nothing in {section}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_limits_are_rejected_as_documented() {
    for section in ["server.", "store.", "queue."] {
        hold(section).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_and_tenant_limits_are_rejected_as_documented() {
    for section in ["auth.", "events.", "tenants."] {
        hold(section).await;
    }
}

#[test]
fn every_section_of_the_reference_is_tested() {
    let shown = ["server.", "store.", "queue.", "auth.", "events.", "tenants."];
    for limit in CATALOG.iter().filter(|limit| matches!(limit.beyond, LimitAction::Reject(..))) {
        assert!(shown.iter().any(|section| limit.setting.starts_with(section)), "{}", limit.setting);
    }
}

/// Checks that registering and calling a tool still work at the limits.
#[tokio::test(flavor = "multi_thread")]
async fn value_at_its_limit_is_accepted() {
    let app = tuned(|config| {
        (config.tenants.max_tools, config.tenants.max_sessions) = (1, 1);
        config.events.max_subscribers = 1;
    })
    .await;
    app.register(http_tool("a", json!({"url": "http://127.0.0.1:1/"}))).await;
    app.call_with(json!({"name": "echo", "session": "s"})).await;
    let stream = app.events("/events").await;
    app.call_with(json!({"name": "echo", "session": "s"})).await;
    let refused = app.post("/tool-calls", &json!({"name": "echo", "session": "t"})).await;
    assert_eq!(refused.problem(429)["code"], "TOO_MANY_SESSIONS");
    assert_eq!(app.stats("echo").await["execution_count"], 2);
    drop(stream);
}
