//! Clients that are slow, silent or too many, or that stay too long: each is bounded and notified where possible.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use toolpost::config::Config;

use crate::support::raw::{connect, exchange, is_problem, to_the_end};
use crate::support::{App, Backend, Options, bounded, eventually};

async fn app(configure: fn(&mut Config)) -> App {
    App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_headers_are_a_408() {
    let app = app(|config| config.server.header_timeout_ms = 50).await;
    let mut stream = connect(&app).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    let answer = to_the_end(&mut stream).await;
    assert!(is_problem(&answer, 408), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("x-content-type-options: nosniff"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_is_closed_silently() {
    // Long enough to send a request on any machine.
    let app = app(|config| config.server.idle_timeout_ms = 1000).await;
    let mut fresh = connect(&app).await;
    assert_eq!(to_the_end(&mut fresh).await, "");
    let mut used = connect(&app).await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let answer = to_the_end(&mut used).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("}"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_longer_than_all_connection_timeouts_is_answered() {
    let app = app(|config| {
        config.server.idle_timeout_ms = 500;
        config.server.header_timeout_ms = 500;
        config.server.write_timeout_ms = 500;
    })
    .await;
    let call = app.call("wait", json!({"ms": 1500})).await;
    assert_eq!(call["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_reader_loses_its_connection() {
    let app = app(|config| config.server.write_timeout_ms = 1000).await;
    let mut sleeping = connect(&app).await;
    sleeping.write_all(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let many = vec!["x".repeat(1000); 3000];
    // The connection is closed once its buffers are full, so the data that can still be read ends abruptly.
    let body = json!({"name": "echo", "arguments": {"many": many}});
    let cut = async {
        loop {
            app.call_with(body.clone()).await;
            if sleeping.write_all(b"\r\n").await.is_err() {
                return;
            }
        }
    };
    bounded("its connection to be closed", cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_head_is_a_431_or_a_414() {
    let app = app(|config| config.server.max_header_bytes = 8192).await;
    let large = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-large: {}\r\n\r\n", "x".repeat(9000));
    let answer = exchange(&app, &large, b"").await;
    assert!(is_problem(&answer, 431), "{answer}");
    let many: String = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect();
    let answer = exchange(&app, &format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n"), b"").await;
    assert!(is_problem(&answer, 431), "{answer}");
    let small = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {}\r\n\r\n", "x".repeat(7000));
    assert!(exchange(&app, &small, b"").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_path_and_invalid_http_are_problems() {
    let app = app(|config| config.server.max_header_bytes = 120_000).await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000));
    let answer = exchange(&app, &long, b"").await;
    assert!(is_problem(&answer, 414), "{answer}");
    let answer = exchange(&app, "GET /healthz NONSENSE/1\r\n\r\n", b"").await;
    assert!(is_problem(&answer, 400), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_a_503() {
    let app = app(|config| config.server.max_connections = 2).await;
    let held = [connect(&app).await, connect(&app).await];
    // Connections are accepted in order, so both are accepted before the third.
    let request = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = exchange(&app, request, b"").await;
    assert!(is_problem(&answer, 503), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("retry-after: 1"), "{answer}");
    drop(held);
    eventually("room", || async { exchange(&app, request, b"").await.starts_with("HTTP/1.1 200 ").then_some(()) })
        .await;
}
