//! Servers whose answers do not name their requests: each POST is answered by its response, and nothing hangs.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Fixture, quick, tool};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options};

/// A server of 2025-06-18 that answers calls of each tool in its own way. Stopped on drop.
struct OddServer {
    url: String,
    seen: Arc<SeenRequests>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct SeenRequests {
    /// The number of sessions so far; the last one is the only valid session.
    sessions: Mutex<usize>,
    /// The tools of the calls that a valid session has sent.
    ran: Mutex<Vec<String>>,
    /// The tools of all calls.
    calls: Mutex<Vec<String>>,
}

impl Drop for OddServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const TOOLS: [&str; 20] = [
    "fine",
    "lost_400",
    "lost_409",
    "lost_200",
    "lost_text",
    "lost_404",
    "always_lost",
    "own_session",
    "null_error",
    "wrong_id",
    "text_id",
    "no_id",
    "event_null",
    "event_end",
    "empty",
    "page",
    "accepted",
    "corrected",
    "corrected_event",
    "broken",
];

impl OddServer {
    async fn start() -> Self {
        let seen = Arc::<SeenRequests>::default();
        let router = Router::new().route("/mcp", post(answer)).with_state(seen.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen, task }
    }

    fn ran(&self, tool: &str) -> usize {
        self.seen.ran.lock().unwrap().iter().filter(|ran| *ran == tool).count()
    }

    fn calls(&self, tool: &str) -> usize {
        self.seen.calls.lock().unwrap().iter().filter(|called| *called == tool).count()
    }
}

fn error(id: Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": message}, "id": id})
}

fn sent(status: u16, body: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), axum::Json(body.clone())).into_response()
}

async fn answer(State(seen): State<Arc<SeenRequests>>, headers: HeaderMap, message: axum::Json<Value>) -> Response {
    let id = message["id"].clone();
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let session = headers.get("mcp-session-id").and_then(|session| session.to_str().ok()).unwrap_or_default();
    let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
    match message["method"].as_str() {
        Some("initialize") => {
            let mut sessions = seen.sessions.lock().unwrap();
            *sessions += 1;
            let server = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"}});
            ([("mcp-session-id", sessions.to_string())], axum::Json(result(server))).into_response()
        }
        Some("server/discover") => sent(400, &error(Value::Null, "Bad Request: No valid session ID provided")),
        Some("tools/list") => sent(200, &result(json!({"tools": TOOLS.map(super::tool)}))),
        Some("tools/call") => {
            seen.calls.lock().unwrap().push(tool.clone());
            let is_first = session == "1";
            called(&seen, &tool, is_first, &id)
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// Answers a call. Tools named `lost_…` have lost the first session.
fn called(seen: &SeenRequests, tool: &str, is_first: bool, id: &Value) -> Response {
    let done = |id: &Value| {
        seen.ran.lock().unwrap().push(tool.to_owned());
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "done"}]}})
    };
    let lost = error(Value::Null, "Bad Request: No valid session ID provided");
    let events = |text: String| ([("content-type", "text/event-stream")], text).into_response();
    match tool {
        "always_lost" => sent(400, &lost),
        "lost_400" if is_first => sent(400, &lost),
        "lost_409" if is_first => sent(409, &error(json!("server-error"), "Conflict: Session terminated")),
        "lost_200" if is_first => sent(200, &lost),
        "lost_text" if is_first => (StatusCode::BAD_REQUEST, "Invalid session ID").into_response(),
        "lost_404" if is_first => sent(404, &error(Value::Null, "Session not found")),
        "own_session" => {
            done(id);
            sent(200, &error(id.clone(), "Session not found: start a browser first"))
        }
        "null_error" => sent(400, &error(Value::Null, "the quota is used up")),
        "wrong_id" => sent(200, &done(&json!(999))),
        "text_id" => sent(200, &done(&json!(id.to_string()))),
        "no_id" => {
            let mut answer = error(Value::Null, "broken");
            answer.as_object_mut().unwrap().remove("id");
            sent(200, &answer)
        }
        "event_null" => events(format!("data: {}\n\n", error(Value::Null, "an event without an id"))),
        "event_end" => events(": nothing\n\n".to_owned()),
        "empty" => ([("content-type", "application/json")], "").into_response(),
        "page" => ([("content-type", "text/html")], "<h1>Welcome</h1>").into_response(),
        "accepted" => StatusCode::ACCEPTED.into_response(),
        "corrected" | "corrected_event" => {
            done(id);
            let result = r#"{"content":[{"type":"text","text":"caf\ud83d"}],"structuredContent":{"n":NaN}}"#;
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            match tool {
                "corrected" => ([("content-type", "application/json")], format!("\u{feff}{message}")).into_response(),
                _ => events(format!("data: {message}\n\n")),
            }
        }
        "broken" => {
            ([("content-type", "application/json")], r#"{"jsonrpc":"2.0","result":{"content":[}}"#).into_response()
        }
        _ => sent(200, &done(id)),
    }
}

async fn served(server: &OddServer) -> App {
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(quick), ..Options::default() }).await;
    let made = app.post("/upstreams", &json!({"name": "o", "url": server.url})).await;
    assert_eq!((made.status, &made.json["state"]), (201, &json!("ready")), "{}", made.text());
    app
}

/// Calls a tool with a timeout that no test waits for.
async fn call(app: &App, tool: &str) -> Value {
    let call = app.call_with(json!({"name": format!("o.{tool}"), "limits": {"timeout_ms": 600_000}})).await;
    assert_ne!(call["error"]["code"], "TOOL_TIMEOUT", "{call:#}");
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_session_is_renewed_and_the_call_runs_once() {
    for tool in ["lost_400", "lost_409", "lost_200", "lost_text", "lost_404"] {
        let server = OddServer::start().await;
        let app = served(&server).await;
        assert_eq!(succeeded(&call(&app, tool).await), "done", "{tool}");
        assert_eq!((server.calls(tool), server.ran(tool), *server.seen.sessions.lock().unwrap()), (2, 1, 2), "{tool}");
        assert_eq!(succeeded(&call(&app, "fine").await), "done");
        assert_eq!(app.upstream("o").await["state"], "ready", "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatedly_lost_session_ends_the_call() {
    let server = OddServer::start().await;
    let app = served(&server).await;
    let ended = call(&app, "always_lost").await;
    assert!(failed(&ended, "TOOL_EXECUTION_ERROR").contains("refuses the session"), "{ended:#}");
    assert_eq!((server.calls("always_lost"), server.ran("always_lost")), (2, 0));
    app.upstream_in("o", "ready").await;
    assert_eq!(succeeded(&call(&app, "fine").await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_may_have_run_is_not_repeated() {
    let server = OddServer::start().await;
    let app = served(&server).await;
    let call = call(&app, "own_session").await;
    failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(call["output"].as_str().unwrap().contains("start a browser first"), "{call:#}");
    assert_eq!((server.calls("own_session"), server.ran("own_session")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn post_is_answered_by_its_response_whatever_the_id() {
    let server = OddServer::start().await;
    let app = served(&server).await;
    for tool in ["wrong_id", "text_id"] {
        assert_eq!(succeeded(&call(&app, tool).await), "done", "{tool}");
    }
    for (tool, expected) in [
        ("null_error", "the quota is used up"),
        ("event_null", "an event without an id"),
        ("no_id", ""),
        ("event_end", ""),
        ("empty", ""),
        ("page", "text/html"),
        ("accepted", "without answering it"),
        ("broken", "not valid JSON"),
    ] {
        let call = call(&app, tool).await;
        failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(call["output"].as_str().unwrap().contains(expected), "{tool}: {call:#}");
        assert_eq!(server.calls(tool), 1, "{tool}");
    }
    assert_eq!(app.upstream_in("o", "ready").await["state"], "ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonstandard_json_response_is_corrected() {
    let server = OddServer::start().await;
    let app = served(&server).await;
    for tool in ["corrected", "corrected_event"] {
        let call = call(&app, tool).await;
        assert!(succeeded(&call).starts_with("caf\u{fffd}"), "{call:#}");
        assert_eq!((&call["structured"], server.ran(tool)), (&json!({"n": null}), 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_without_an_id_ends_the_only_call_of_a_program() {
    let fixture = Fixture::new(&json!([tool("stray"), tool("fine")]));
    let app = fixture.served(json!({})).await;
    app.upstream_in("s", "ready").await;
    let call = app.call_with(json!({"name": "s.stray", "limits": {"timeout_ms": 600_000}})).await;
    failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(call["output"].as_str().unwrap().contains("Parse error"), "{call:#}");
    assert_eq!(app.upstream("s").await["state"], "ready");
}
