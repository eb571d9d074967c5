//! Requirements of HTTP in edge cases (RFC 9110, RFC 9112), sent byte by byte.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::app::http_tool;
use crate::support::calls::gated;
use crate::support::raw::{connect, exchange, is_problem, to_the_end};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

/// Returns a call as bytes, with these headers.
fn post(headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST /tool-calls HTTP/1.1\r\nhost: x\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Returns the JSON body of a response.
fn body_of(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}")).1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_exactly_one_valid_host_is_a_400() {
    let app = App::on_sqlite().await;
    for hosts in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nHost: b\r\n",
        "host: a b\r\n",
        "host: user@a\r\n",
        "host: a/b\r\n",
        "host: a:b\r\n",
        "host: [::1\r\n",
    ] {
        for line in ["GET /healthz", "GET /nowhere", "OPTIONS /tool-calls", "GET /mcp"] {
            let answer = exchange(&app, &format!("{line} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n"), b"").await;
            assert!(is_problem(&answer, 400), "{line} {hosts:?}: {answer}");
            assert!(body_of(&answer)["detail"].as_str().unwrap().contains("Host"), "{answer}");
        }
    }
    for hosts in ["host: a\r\n", "host: 127.0.0.1:80\r\n", "host: [::1]:8080\r\n", "host:\r\n"] {
        let answer = exchange(&app, &format!("GET /healthz HTTP/1.1\r\n{hosts}connection: close\r\n\r\n"), b"").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{hosts:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_0_needs_no_host() {
    let app = App::on_sqlite().await;
    let answer = exchange(&app, "GET /healthz HTTP/1.0\r\n\r\n", b"").await;
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    let answer = exchange(&app, "GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", b"").await;
    assert!(answer.starts_with("HTTP/1.0 400 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_client_is_answered() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.http_tool("act", &server).await;
    // An immediate response.
    let mut quick = connect(&app).await;
    quick.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    quick.shutdown().await.unwrap();
    let answer = to_the_end(&mut quick).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A response that arrives after the client has closed its side.
    let mut slow = connect(&app).await;
    slow.write_all(post("", &json!({"name": "act"})).as_bytes()).await.unwrap();
    slow.shutdown().await.unwrap();
    server.received(1).await;
    server.open();
    assert_eq!(succeeded(&body_of(&to_the_end(&mut slow).await)), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_client_with_a_truncated_body_gets_an_error() {
    let app = App::on_sqlite().await;
    let mut stream = connect(&app).await;
    let whole = post("", &json!({"name": "echo"}));
    stream.write_all(&whole.as_bytes()[..whole.len() - 1]).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = to_the_end(&mut stream).await;
    assert!(is_problem(&answer, 400) && answer.contains("connection: close"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_close_cancels_a_call_that_ends_with_its_caller() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::Never).await);
    app.http_tool("act", &server).await;
    let mut stream = connect(&app).await;
    stream.write_all(post("", &json!({"name": "act", "on_disconnect": "cancel"})).as_bytes()).await.unwrap();
    server.received(1).await;
    stream.shutdown().await.unwrap();
    server.closed().await;
    failed(&app.ended(&app.only("act").await).await, "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_tool_is_not_sent_to_ports_of_other_protocols() {
    let app = App::with_egress(Backend::Sqlite).await;
    for (port, kind) in [(22, "HTTP"), (25, "HTTP"), (5432, "database"), (6379, "database")] {
        let name = format!("on_{port}");
        app.register(http_tool(&name, json!({"url": format!("http://127.0.0.1:{port}/")}))).await;
        let call = app.call(&name, json!({})).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(text.contains(&format!("port {port} is not allowed")) && text.contains(kind), "{text}");
        assert_eq!(call["error"]["details"]["request_sent"], json!(false), "{call}");
    }
    let elsewhere = HttpTool::answering(Answer::redirect(303, "http://127.0.0.1:6379/")).await;
    app.http_tool("redirected", &elsewhere).await;
    let call = app.call("redirected", json!({})).await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.contains("a redirect was not followed: port 6379 is not allowed"), "{text}");
    // An OpenAPI document by URL, and an upstream server.
    let import = app.post("/imports/openapi", &json!({"url": "http://127.0.0.1:5432/openapi.json"})).await;
    assert!(import.text().contains("port 5432 is not allowed"), "{}", import.text());
}
