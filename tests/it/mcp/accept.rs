//! Content negotiation: each client is answered in a form that it accepts.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::sessions::{message, session};
use super::{MODERN, posted};
use crate::support::client::send;
use crate::support::{App, Client, Response, bounded, eventually};

/// Values of `Accept`, with whether they allow JSON and events; the first is no header.
const ACCEPTS: [(Option<&str>, bool, bool); 9] = [
    (None, true, true),
    (Some("*/*"), true, true),
    (Some("application/json"), true, false),
    (Some("application/*"), true, false),
    (Some("text/event-stream"), false, true),
    (Some("text/*"), false, true),
    (Some("text/event-stream;q=0, */*;q=0.1"), true, false),
    (Some("application/json; q=0.5, text/event-stream"), true, true),
    (Some("text/html, */*;q=0.8"), true, true),
];

fn with(client: &Client, message: &Value, accept: Option<&str>) -> RequestBuilder {
    let request = client.request(Method::POST, "/mcp").json(message);
    match accept {
        Some(accept) => request.header("accept", accept),
        None => request,
    }
}

/// Checks the form of a response, and returns its message.
fn in_form(answer: &Response, (accept, json, events): (Option<&str>, bool, bool)) -> Value {
    let form = answer.header("content-type").to_owned();
    let is_allowed = form == "application/json" && json || form == "text/event-stream" && events;
    assert!(answer.status == 200 && is_allowed, "{accept:?}: {} {form} {}", answer.status, answer.text());
    message(answer)
}

fn wait(meta: Value) -> Value {
    let params = json!({"name": "wait", "arguments": {"ms": 20, "steps": 4}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn response_has_a_form_that_the_client_accepts() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let list = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"});
    let unknown = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "nothing"}});
    let modern = json!({"progressToken": 1, "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}});
    for accepted in ACCEPTS {
        for (body, session) in [
            (wait(json!({})), None),
            (wait(json!({"progressToken": 1})), None),
            (wait(json!({"progressToken": 1})), Some(&id)),
            (list.clone(), None),
            (list.clone(), Some(&id)),
            (unknown.clone(), None),
        ] {
            let mut request = with(&app, &body, accepted.0);
            if let Some(session) = session {
                request = request.header("mcp-session-id", session);
            }
            let answer = in_form(&send(request).await, accepted);
            let shown = if body == unknown { &answer["error"] } else { &answer["result"] };
            assert!(answer["id"] == "a" && shown.is_object(), "{accepted:?} {body}: {answer}");
        }
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "wait")];
        let request = with(&app, &wait(modern.clone()), accepted.0);
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        assert_eq!(in_form(&send(request).await, accepted)["result"]["isError"], false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_begins_in_an_accepted_form() {
    let app = App::on_sqlite().await;
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    for accepted in ACCEPTS {
        let begun = send(with(&app, &initialize, accepted.0)).await;
        assert_eq!(in_form(&begun, accepted)["result"]["serverInfo"]["name"], "toolpost");
        assert!(!begun.header("mcp-session-id").is_empty(), "{accepted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_accepts_no_form_is_rejected() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    for accept in ["text/html", "image/*", "*/*;q=0", "application/json;q=0"] {
        let refused = send(with(&app, &wait(json!({})), Some(accept))).await;
        assert!(refused.problem(406)["detail"].as_str().unwrap().contains("Accept"), "{accept}");
    }
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {}}});
    send(with(&app, &listen, Some("application/json"))).await.problem(406);
    let get = |accept: Option<&'static str>| {
        let request = app.request(Method::GET, "/mcp").header("mcp-session-id", &id);
        match accept {
            Some(accept) => request.header("accept", accept),
            None => request,
        }
    };
    for accept in ["application/json", "text/event-stream;q=0"] {
        send(get(Some(accept))).await.problem(406);
    }
    for accept in [None, Some("*/*"), Some("text/*"), Some("text/event-stream")] {
        let stream = bounded("a stream", get(accept).send()).await.unwrap();
        assert!(stream.status() == 200 && stream.headers()["content-type"] == "text/event-stream", "{accept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_accepts_json_only_learns_of_its_cancelled_request() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {"ms": 60_000}}});
    let running = tokio::spawn(send(with(&app, &long, Some("application/json")).header("mcp-session-id", &id)));
    eventually("a running call", || async {
        let calls = app.get("/tool-calls?name=wait&status=DOING").await.ok();
        calls["tool_calls"].get(0).is_some().then_some(())
    })
    .await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(send(posted(&app, &cancel).header("mcp-session-id", &id)).await.status, 202);
    let answer = running.await.unwrap().ok();
    assert_eq!((&answer["id"], &answer["error"]["data"]["code"]), (&json!(1), &json!("CANCELLED")));
}
