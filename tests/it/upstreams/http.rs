//! Servers over Streamable HTTP, which can be registered over the API.

use serde_json::{Value, json};

use super::http_server::HttpServer;
use super::{Fixture, options, quick};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{App, Backend, Options, eventually};

async fn service(backend: Backend) -> App {
    App::start_with(backend, Options { configure: Some(quick), ..Options::default() }).await
}

async fn registered(app: &App, server: &HttpServer, more: Value) -> Value {
    let mut body = json!({"name": "h", "url": server.url()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = app.post("/upstreams", &body).await;
    assert_eq!((answer.status, answer.header("location")), (201, "/upstreams/h"), "{}", answer.text());
    answer.json
}

on_both_databases!(
    async fn server_is_registered_used_kept_and_removed(backend: Backend) {
        let (app, server) = (service(backend).await, HttpServer::start(&["echo"]).await);
        let shown = registered(&app, &server, json!({})).await;
        assert_eq!(
            (&shown["state"], &shown["tools"], &shown["source"]),
            (&json!("ready"), &json!(["h.echo"]), &json!("api"))
        );
        assert_eq!(shown["protocol_version"], "2026-07-28");
        let call = app.call("h.echo", json!({"a": [1, "é"]})).await;
        succeeded(&call);
        assert_eq!(call["structured"], json!({"a": [1, "é"]}));
        let again = app.post("/upstreams", &json!({"name": "h", "url": server.url()})).await;
        assert_eq!((again.status, &again.json["code"]), (409, &json!("UPSTREAM_EXISTS")));
        let app = app.restart().await;
        app.upstream_in("h", "ready").await;
        succeeded(&app.call("h.echo", json!({})).await);
        assert_eq!(app.delete("/upstreams/h").await.status, 204);
        assert_eq!(app.get("/upstreams").await.ok()["total"], 0);
        failed(&app.call("h.echo", json!({})).await, "TOOL_NOT_FOUND");
        assert_eq!(app.delete("/upstreams/h").await.status, 404);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_node_has_it_too() {
    requires_postgres!();
    let (app, server) = (service(Backend::Postgres).await, HttpServer::start(&["echo"]).await);
    let second = app.second().await;
    registered(&app, &server, json!({})).await;
    second.has_tools("h", &["h.echo"]).await;
    succeeded(&second.call("h.echo", json!({})).await);
    assert_eq!(second.delete("/upstreams/h").await.status, 204);
    app.has_tools("h", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_server_is_rejected_with_its_pointer() {
    let app = service(Backend::Sqlite).await;
    for (body, pointer) in [
        (json!({"name": "a", "command": "sh", "url": "http://h/"}), "/command"),
        (json!({"name": "a", "type": "stdio", "url": "http://h/"}), "/type"),
        (json!({"name": "a", "type": "sse", "url": "http://h/"}), "/type"),
        (json!({"name": "a.b", "url": "http://h/"}), "/name"),
        (json!({"name": "a", "url": "ftp://h/"}), "/url"),
        (json!({"name": "a", "url": "http://h/", "headers": {"Host": "x"}}), "/headers/Host"),
        (json!({"name": "a", "url": "http://h/", "headers": {"X": {"secret": "a-b"}}}), "/headers/X/secret"),
        (json!({"name": "a", "url": "http://h/", "pinned": true}), "/pinned"),
    ] {
        let refused = app.post("/upstreams", &body).await;
        assert_eq!(refused.status, 422, "{body}");
        points_at(&refused.json, pointer);
    }
    assert_eq!(app.get("/upstreams").await.ok()["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_sent_and_never_shown() {
    let server = HttpServer::with_password(&["echo"], "Bearer tok-planted-1234567").await;
    let fixture = Fixture::named(&[]);
    let app = App::start_with(Backend::Sqlite, options(fixture.file_of(&json!({})))).await;
    let shown = registered(&app, &server, json!({"headers": {"Authorization": "Bearer tok-planted-1234567"}})).await;
    assert_eq!((&shown["state"], &shown["headers"]), (&json!("ready"), &json!(["Authorization"])), "{shown:#}");
    assert!(!shown.to_string().contains("planted"));
    // The stored credentials open again.
    let app = app.restart().await;
    app.upstream_in("h", "ready").await;
    let call = app.call("h.echo", json!({"t": "tok-planted-1234567"})).await;
    assert_eq!(call["structured"], json!({"t": "[redacted]"}));

    // A registered server cannot use the service's variables.
    let wrong = json!({"name": "w", "url": server.url(), "headers": {"Authorization": "Bearer ${TOKEN}"}});
    assert_eq!(app.post("/upstreams", &wrong).await.status, 201);
    let refusal = eventually("the refusal", || async {
        app.upstream("w").await["last_error"]["message"].as_str().map(str::to_owned)
    });
    assert!(refusal.await.contains("HTTP 401"));
    assert!(server.seen().iter().any(|(_, shown)| shown == "Bearer ${TOKEN}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_server_address_is_not_contacted() {
    let server = HttpServer::start(&["echo"]).await;
    let closed = |config: &mut toolpost::config::Config| {
        quick(config);
        config.egress.allow = Vec::new();
    };
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(closed), ..Options::default() }).await;
    for (name, host) in [("a", "127.0.0.1"), ("b", "localhost")] {
        let url = format!("http://{host}:{}/mcp", server.port);
        let shown = app.post("/upstreams", &json!({"name": name, "url": url})).await.json;
        let message = shown["last_error"]["message"].as_str().unwrap_or_else(|| panic!("{shown:#}"));
        assert!(message.contains("is not allowed (loopback address"), "{message}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_cancellation_and_other_tools_work_over_http() {
    let (app, server) = (service(Backend::Sqlite).await, HttpServer::start(&["steps", "wait"]).await);
    registered(&app, &server, json!({})).await;
    let call = app.call("h.steps", json!({})).await;
    assert_eq!((succeeded(&call), &call["progress"]["current"]), ("all done", &json!(3.0)));
    let id = app.accepted(json!({"name": "h.wait", "wait": "accepted"})).await;
    server.waits(1).await;
    app.cancel(&id).await;
    server.is_given_up(1).await;
    failed(&app.call_with(json!({"name": "h.wait", "limits": {"timeout_ms": 50}})).await, "TOOL_TIMEOUT");
    server.is_given_up(2).await;
    server.offer(&["other"]);
    app.has_tools("h", &["h.other"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_server_is_reconnected() {
    let (app, server) = (service(Backend::Sqlite).await, HttpServer::start(&["echo"]).await);
    registered(&app, &server, json!({})).await;
    let port = server.port;
    drop(server);
    // A kept-alive connection may not report the loss; a new one is refused.
    let call = eventually("the loss", || async {
        Some(app.call("h.echo", json!({})).await).filter(|call| call["status"] == "ERROR")
    })
    .await;
    assert!(
        ["TOOL_EXECUTION_ERROR", "TOOL_UNAVAILABLE"].contains(&call["error"]["code"].as_str().unwrap()),
        "{call:#}"
    );
    app.upstream_in("h", "failed").await;
    app.has_tools("h", &[]).await;
    let server = HttpServer::on(port, &["echo"], None).await;
    app.has_tools("h", &["h.echo"]).await;
    succeeded(&app.call("h.echo", json!({})).await);
    assert_eq!(server.calls(), 1);
}
