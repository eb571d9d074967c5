//! Streams of MCP sessions that break and are resumed at another node.

use reqwest::Method;
use serde_json::{Value, json};

use super::mcp::{call, say};
use super::{aborted, ended, two, two_with};
use crate::mcp::{posted, session};
use crate::support::calls::gated;
use crate::support::sse::{Event, EventStream};
use crate::support::{App, Client, bounded};

/// Opens the stream with the response to a message.
async fn opened(node: &Client, session: &str, message: &Value) -> EventStream {
    let request = posted(node, message).header("mcp-session-id", session);
    let answer = bounded("a stream", request.send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    EventStream::new(answer.bytes_stream())
}

/// Resumes a stream after the event with this id, or opens the stream of notifications.
async fn resumed(node: &Client, session: &str, last: Option<&str>) -> EventStream {
    let mut request = node.request(Method::GET, "/mcp").header("mcp-session-id", session);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    node.events_from(request).await
}

fn with_progress(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({"progressToken": "p"});
    message
}

fn progress(event: &Event) -> f64 {
    assert_eq!(event.data["params"]["progressToken"], "p", "{:?}", event.data);
    event.data["params"]["progress"].as_f64().unwrap()
}

async fn external(app: &App) {
    app.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
}

async fn report(node: &Client, id: &str, current: u32) {
    let report = json!({"progress": {"current": current, "total": 9}});
    assert_eq!(node.post(&format!("/tool-calls/{id}/progress"), &report).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn response_is_resumed_at_any_node_with_later_progress() {
    requires_postgres!();
    let (one, other) = two().await;
    external(&one).await;
    let third = one.second().await;
    let id = session(&one).await;
    let mut stream = opened(&one, &id, &with_progress(call(json!("q"), "ask", json!({})))).await;
    let first = stream.next().await.unwrap();
    assert!(first.data.is_null() && !first.id.is_empty(), "the stream begins with an id");
    let ask = one.only("ask").await;
    one.in_phase(&ask, "external").await;
    report(&one, &ask, 1).await;
    let mut last = stream.next().await.unwrap();
    assert_eq!(progress(&last), 1.0);
    drop(stream);
    for (current, node) in [(2, &other), (3, &third), (4, &one)] {
        let mut stream = resumed(node, &id, Some(&last.id)).await;
        report(&one, &ask, current).await;
        last = stream.next().await.unwrap();
        assert_eq!(progress(&last), f64::from(current), "only what follows is sent");
    }
    let mut stream = resumed(&other, &id, Some(&last.id)).await;
    assert_eq!(one.post(&format!("/tool-calls/{ask}/result"), &json!("done")).await.status, 200);
    let end = stream.next().await.unwrap();
    assert_eq!((&end.data["id"], &end.data["result"]["content"][0]["text"]), (&json!("q"), &json!("done")));
    assert_eq!(end.data["result"].get("resultType"), None);
    assert!(stream.next().await.is_none(), "the stream ends with the response");
    // The response is still there for a client that missed it.
    for node in [&one, &third] {
        let again = resumed(node, &id, Some(&first.id)).await.rest().await;
        let again: Vec<&Value> = again.iter().filter(|event| event.data.get("id").is_some()).map(|e| &e.data).collect();
        assert_eq!(again, [&end.data]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_of_a_call_stored_later_is_resumed_elsewhere() {
    requires_postgres!();
    let server = gated("seen").await;
    let (one, other) = two_with(&server, "look", json!({"annotations": {"read_only": true}})).await;
    let id = session(&one).await;
    let mut stream = opened(&one, &id, &call(json!(7), "look", json!({}))).await;
    let first = stream.next().await.unwrap();
    server.received(1).await;
    drop(stream);
    let mut stream = resumed(&other, &id, Some(&first.id)).await;
    server.open();
    let end = stream.next().await.unwrap();
    assert_eq!((&end.data["id"], &end.data["result"]["content"][0]["text"]), (&json!(7), &json!("seen")));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_resumed_stream_is_cancelled_from_the_node_that_serves_it() {
    requires_postgres!();
    let (one, other) = two().await;
    external(&one).await;
    let id = session(&one).await;
    let mut stream = opened(&one, &id, &call(json!("q"), "ask", json!({}))).await;
    let first = stream.next().await.unwrap();
    let ask = one.only("ask").await;
    one.in_phase(&ask, "external").await;
    drop(stream);
    let mut stream = resumed(&other, &id, Some(&first.id)).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}});
    assert_eq!(say(&other, &id, &cancel).await.status, 202);
    aborted(&ended(&other, &ask).await);
    assert_eq!(stream.next().await.unwrap().data["result"]["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn response_of_another_tenant_is_not_shown() {
    requires_postgres!();
    let (one, _other) = two().await;
    let (admin, _) = one.key(json!({"scopes": ["admin"]})).await;
    let operator = one.with_key(&admin);
    let (stranger, _) = operator.key(json!({"scopes": ["call", "read"], "tenant": "two"})).await;
    let id = session(&operator).await;
    let mut stream = opened(&operator, &id, &call(json!(1), "calculate", json!({"expression": "1 + 1"}))).await;
    let first = stream.next().await.unwrap();
    assert_eq!(stream.rest().await.last().unwrap().data["result"]["content"][0]["text"], "2");
    let foreign = one.with_key(&stranger);
    let own = session(&foreign).await;
    let shown = resumed(&foreign, &own, Some(&first.id)).await.rest().await;
    assert_eq!(shown.last().unwrap().data["error"]["data"]["code"], "CALL_LOST", "{:?}", shown.last().unwrap().data);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_resumed_at_another_node() {
    requires_postgres!();
    let (one, other) = two().await;
    let id = session(&one).await;
    let mut stream = resumed(&one, &id, None).await;
    stream.next().await.unwrap();
    one.echo_of("first", json!({})).await;
    let changed = stream.next().await.unwrap();
    assert_eq!(changed.data["method"], "notifications/tools/list_changed");
    drop(stream);
    // The client may have missed changes, so it must read the list again.
    let mut stream = resumed(&other, &id, Some(&changed.id)).await;
    assert_eq!(stream.next().await.unwrap().data["method"], "notifications/tools/list_changed");
    other.echo_of("second", json!({})).await;
    assert_eq!(stream.next().await.unwrap().data["method"], "notifications/tools/list_changed");
}
