//! The layers in front of all routes: limits of bodies, panics and request ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolpost::config::Config;
use toolpost::domain::ToolDefinition;

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::raw::{exchange, is_problem};
use crate::support::{App, Backend, Client};

/// Returns the head of a request whose body has this length.
fn declared(method: &str, path: &str, media_type: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_large_body_is_rejected_after_the_key_and_before_it_is_sent() {
    let app = App::on_sqlite().await;
    for (method, path, media_type) in [
        ("POST", "/tool-calls", "application/json"),
        ("POST", "/mcp", "text/plain"),
        ("PUT", "/policies/a", "application/json"),
        ("POST", "/tool-calls/x/result", "image/png"),
        ("POST", "/nowhere", "application/json"),
    ] {
        let answer = exchange(&app, &declared(method, path, media_type, (4 << 20) + 1), b"").await;
        assert!(is_problem(&answer, 413), "{path}: {answer}");
        assert!(answer.contains("PAYLOAD_TOO_LARGE") && answer.contains("larger than 4194304 bytes"), "{answer}");
    }
    app.key(json!({"scopes": ["admin"]})).await;
    for path in ["/tool-calls", "/mcp", "/tools", "/imports/openapi"] {
        let answer = exchange(&app, &declared("POST", path, "application/json", 1 << 30), b"").await;
        assert!(is_problem(&answer, 401), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_large_body_is_rejected() {
    let app = App::tuned(Backend::Sqlite, |config| config.server.max_body_bytes = 1000).await;
    let chunk = format!("3e9\r\n{}\r\n0\r\n\r\n", " ".repeat(1001));
    for path in ["/tool-calls", "/mcp", "/tools"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        let answer = exchange(&app, &head, chunk.as_bytes()).await;
        assert!(is_problem(&answer, 413) && answer.contains("larger than 1000 bytes"), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_and_model_streams_have_limits_of_their_own() {
    let app = App::tuned(Backend::Sqlite, |config| config.server.max_body_bytes = 100).await;
    let paths: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("/p{n}"), json!({"get": {"operationId": format!("op{n}")}}))).collect();
    let servers = json!([{"url": "https://pets.example.com"}]);
    let document =
        json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "servers": servers, "paths": paths});
    let report = app.post("/imports/openapi", &json!({"document": document})).await.ok();
    assert_eq!(report["created"].as_array().map(Vec::len), Some(20), "{report}");
    let large = declared("POST", "/imports/openapi", "application/json", (32 << 20) + (64 << 10) + 1);
    let answer = exchange(&app, &large, b"").await;
    assert!(is_problem(&answer, 413) && answer.contains("larger than 33619968 bytes"), "{answer}");
    let stream = format!(": {}\n\ndata: [DONE]\n\n", "x".repeat(200));
    let request = app.request(Method::POST, "/tool-calls/stream?format=openai");
    let answer = send(request.header("content-type", "text/event-stream").body(stream)).await;
    assert!(answer.status == 200 && answer.text().contains("event: batch"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_a_handler_is_a_problem() {
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".to_owned();
    let is_broken = Arc::new(AtomicBool::new(false));
    let layer = {
        let is_broken = is_broken.clone();
        move |definition: &ToolDefinition, stack| {
            assert!(definition.name != "panics" || !is_broken.load(Ordering::Relaxed), "a layer panics");
            stack
        }
    };
    let app = toolpost::app::App::builder(config).wrap(Arc::new(layer)).start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()));
    let drain = CancellationToken::new();
    let server = tokio::spawn(toolpost::http::serve(app, listener, drain.clone()));
    let created = client.post("/tools", &echo_tool("panics", json!({"type": "object"}))).await;
    assert_eq!(created.status, 201, "{}", created.text());
    is_broken.store(true, Ordering::Relaxed);
    let request = client.request(Method::POST, "/tool-calls").json(&json!({"name": "panics"}));
    let answer = send(request.header("x-request-id", "mine")).await;
    assert_eq!((answer.header("x-request-id"), answer.header("cache-control")), ("mine", "no-store"));
    let problem = answer.problem(500);
    assert_eq!((&problem["code"], &problem["request_id"]), (&json!("INTERNAL"), &json!("mine")));
    assert!(!problem.to_string().contains("a layer panics"), "{problem}");
    client.call("echo", json!({})).await;
    drain.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_request_id_of_a_client_is_kept() {
    let app = App::on_sqlite().await;
    let long = "x".repeat(129);
    for (given, is_kept) in [("mine-1", true), ("a b", false), ("", false), (&*long, false), (&long[1..], true)] {
        let answer = send(app.request(Method::GET, "/nowhere").header("x-request-id", given)).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!((id == given, id.is_empty()), (is_kept, false), "{given}: {id}");
        answer.problem(404);
    }
}
