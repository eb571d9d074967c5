//! Allowed hosts and origins: names of this machine, configured names, and web pages of either.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::send;
use crate::support::{App, Backend, Options};

fn ping() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

async fn post_with(app: &App, header: &str, value: &str) -> crate::support::Response {
    let request = app.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    send(request.header(header, value).json(&ping())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_host_or_origin_is_rejected_with_a_hint() {
    let app = App::on_sqlite().await;
    for (header, value) in [
        ("host", "evil.example.com"),
        ("host", "127.0.0.1.evil.example.com:80"),
        ("origin", "http://evil.example.com"),
        ("origin", "null"),
    ] {
        let problem = post_with(&app, header, value).await.problem(403);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("allowed_hosts"), "{header}: {value}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_is_checked_before_the_key_and_for_mcp_alone() {
    let app = App::on_sqlite().await;
    app.key(json!({"scopes": ["admin"]})).await;
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let request = |path| app.request(method.clone(), path).header("host", host);
            let problem = send(request("/mcp")).await.problem(403);
            assert!(problem["detail"].as_str().unwrap().contains("allowed_hosts"), "{method} {host}: {problem}");
            assert_eq!(send(request("/mcp/")).await.status, 403, "{method} {host}");
        }
        let elsewhere = send(app.request(Method::GET, "/tools").header("host", host)).await;
        elsewhere.problem(401);
    }
    assert_eq!(post_with(&app, "host", "localhost").await.problem(401)["code"], "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_may_ask_under_all_its_names() {
    let app = App::on_sqlite().await;
    for (header, value) in [
        ("host", "localhost"),
        ("host", "localhost:1234"),
        ("host", "[::1]:80"),
        ("origin", "http://localhost:3000"),
        ("origin", "http://127.0.0.1"),
    ] {
        assert_eq!(post_with(&app, header, value).await.status, 200, "{header}: {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_hosts_and_origins_are_accepted() {
    let configure = |config: &mut toolpost::config::Config| {
        config.mcp.allowed_hosts = vec!["tools.example.com".into()];
        config.mcp.allowed_origins = vec!["https://app.example.com:443".into()];
    };
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await;
    assert_eq!(post_with(&app, "host", "tools.example.com").await.status, 200);
    assert_eq!(post_with(&app, "origin", "https://tools.example.com").await.status, 200);
    assert_eq!(post_with(&app, "origin", "https://app.example.com").await.status, 200);
    assert_eq!(post_with(&app, "host", "other.example.com").await.status, 403);
    let any = |config: &mut toolpost::config::Config| config.mcp.allowed_hosts = vec!["*".into()];
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(any), ..Options::default() }).await;
    assert_eq!(post_with(&app, "host", "other.example.com").await.status, 200);
    assert_eq!(post_with(&app, "origin", "https://other.example.com").await.status, 403);
}
