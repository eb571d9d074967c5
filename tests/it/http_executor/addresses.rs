//! Addresses that a tool may not reach unless the operator allows them.

use serde_json::json;

use crate::support::app::http_tool;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, ReceivedRequest};

/// Starts a service that may reach 127.0.0.1, with a tool whose server sends one redirect.
async fn redirected(status: u16, location: String) -> (App, HttpTool) {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| Answer::redirect(status, &location)).await;
    app.http_tool("t", &server).await;
    (app, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_is_rejected_under_every_name() {
    let app = App::on_sqlite().await;
    let server = HttpTool::answering(Answer::text("secret")).await;
    let hosts =
        ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]"];
    for (n, host) in hosts.into_iter().enumerate() {
        let (name, url) = (format!("t{n}"), format!("http://{host}:{}/", server.port()));
        let answer = app.post("/tools", &http_tool(&name, json!({"url": url}))).await;
        if answer.status == 201 {
            let call = app.call(&name, json!({})).await;
            assert!(!failed(&call, "TOOL_EXECUTION_ERROR").contains("secret"), "{host}");
        } else {
            answer.problem(422);
        }
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn private_link_local_and_metadata_addresses_are_rejected() {
    let app = App::on_sqlite().await;
    let hosts = ["10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "[fd00::1]", "[fe80::1]"];
    for (n, host) in hosts.into_iter().enumerate() {
        let (name, url) = (format!("t{n}"), format!("http://{host}/"));
        let answer = app.post("/tools", &http_tool(&name, json!({"url": url}))).await;
        if answer.status == 201 {
            let call = app.call(&name, json!({})).await;
            failed(&call, "TOOL_EXECUTION_ERROR");
            assert_eq!(call["error"]["retryable"], false, "{host}");
        } else {
            answer.problem(422);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn argument_cannot_choose_a_forbidden_host() {
    let app = App::on_sqlite().await;
    let server = HttpTool::answering(Answer::text("secret")).await;
    let url = format!("http://{{host}}:{}/", server.port());
    if app.post("/tools", &http_tool("t", json!({"url": url, "method": "GET"}))).await.status == 201 {
        assert_eq!(app.call("t", json!({"host": "127.0.0.1"})).await["status"], "ERROR");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_address_is_reached() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::text("hello")).await;
    app.http_tool("t", &server).await;
    assert_eq!(succeeded(&app.call("t", json!({})).await), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_another_allowed_origin_is_followed_without_the_call() {
    let target = HttpTool::answering(Answer::text("moved here")).await;
    let (app, _server) = redirected(303, target.url("/new")).await;
    assert_eq!(succeeded(&app.call("t", json!({"a": 1})).await), "moved here");
    let request = target.request();
    assert_eq!((request.method.as_str(), request.body.len()), ("GET", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn presets_and_token_stay_at_the_declared_origin() {
    let target = HttpTool::answering(Answer::text("stolen")).await;
    for status in [307, 308] {
        let (app, server) = redirected(status, target.url("/new")).await;
        app.put("/tools/t/presets", &json!({"api_key": {"value": "hunter2"}})).await.ok();
        let call = app.call("t", json!({"a": 1})).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        for port in [server.port(), target.port()] {
            assert!(text.contains(&port.to_string()), "{text}");
        }
        assert_eq!(call["error"]["retryable"], false);
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_a_forbidden_address_is_rejected_before_it_is_reached() {
    let forbidden = HttpTool::start("127.0.0.2", |_| Answer::text("secret")).await;
    for status in [301, 302, 303, 307, 308] {
        let (app, _server) = redirected(status, forbidden.url("/")).await;
        let call = app.call("t", json!({})).await;
        assert!(!failed(&call, "TOOL_EXECUTION_ERROR").contains("secret"), "{status}");
    }
    assert_eq!(forbidden.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_the_metadata_address_is_rejected() {
    let (app, _server) = redirected(302, "http://169.254.169.254/latest/meta-data/".into()).await;
    failed(&app.call("t", json!({})).await, "TOOL_EXECUTION_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_loop_is_an_error() {
    let (app, server) = redirected(302, "/run".into()).await;
    failed(&app.call("t", json!({})).await, "TOOL_EXECUTION_ERROR");
    assert!(server.requests().len() < 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_another_scheme_is_an_error() {
    for location in ["file:///etc/passwd", "gopher://127.0.0.1/", "javascript:1"] {
        let (app, _server) = redirected(302, location.into()).await;
        let call = app.call("t", json!({})).await;
        assert_eq!(call["status"], "ERROR", "{location}");
        assert!(!call["output"].as_str().unwrap().contains("root:"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_scheme_reaches_nothing() {
    let app = App::with_egress(Backend::Sqlite).await;
    for url in ["file:///etc/passwd", "ftp://127.0.0.1/", "data:text/plain,x"] {
        app.post("/tools", &http_tool("t", json!({"url": url}))).await.problem(422);
    }
}
