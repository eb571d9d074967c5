//! Streams and requests that were opened with a key end with the key.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::service;
use crate::mcp::modern;
use crate::model_streams::Pipe;
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::{App, Backend, Client, EventStream, Response, bounded, eventually};

/// Registers a tool whose calls wait for a posted result.
async fn external(operator: &Client) {
    let definition = json!({"name": "ext", "description": "x", "input_schema": {"type": "object"},
        "executor": {"type": "external"}});
    operator.register(definition).await;
}

/// All requests that stay open with a key: streams, waits, and a model's stream that is piped in.
struct Open {
    waiting: String,
    streams: Vec<(String, EventStream)>,
    polls: Vec<JoinHandle<Response>>,
    mcp: Vec<reqwest::Response>,
    pipe: (Pipe, EventStream),
}

impl Open {
    async fn with(client: &Client) -> Self {
        let call = json!({"name": "ext", "session": "s", "wait": "accepted"});
        let waiting = id_of(&client.post("/tool-calls", &call).await.json);
        let mut streams = Vec::new();
        for path in ["/events".to_owned(), format!("/tool-calls/{waiting}/events"), "/sessions/s/events".to_owned()] {
            streams.push((path.clone(), client.events(&path).await));
        }
        streams.push(("a streamed call".to_owned(), client.call_streamed(&json!({"name": "ext"})).await));
        let poll = client.request(Method::GET, &format!("/tool-calls/{waiting}?wait_ms=300000"));
        let body = json!({"name": "ext", "id": "awaited"});
        let polls = vec![tokio::spawn(send(poll)), client.posted(body)];
        eventually("the call that is waited for", || async { awaited(client).await }).await;
        let params = json!({"notifications": {"toolsListChanged": true}});
        let subscription = modern(client, "subscriptions/listen", params, json!({})).send();
        let session = crate::mcp::session(client).await;
        let stream = client.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        let stream = stream.header("mcp-session-id", session).send();
        let mut mcp = Vec::new();
        for (what, opened) in [
            ("a subscription", bounded("a subscription", subscription).await),
            ("a session's stream", bounded("a stream", stream).await),
        ] {
            let opened = opened.unwrap();
            assert_eq!(opened.status(), 200, "{what}");
            mcp.push(opened);
        }
        Self { waiting, streams, polls, mcp, pipe: Pipe::open(client, "").await }
    }

    /// Waits until all of them have ended, and returns the id of the detached call.
    async fn ends(self) -> String {
        for (what, mut stream) in self.streams {
            bounded(&what, stream.rest()).await;
        }
        for poll in self.polls {
            let problem = bounded("a wait", poll).await.unwrap().problem(401);
            assert_eq!(problem["code"], "INVALID_KEY");
        }
        for mut stream in self.mcp {
            bounded("a stream of MCP", async { while stream.chunk().await.unwrap().is_some() {} }).await;
        }
        let (pipe, mut events) = self.pipe;
        bounded("the answer to a model's stream", events.rest()).await;
        // The service stops reading the model's stream.
        eventually("the end of a model's stream", || async { pipe.is_over().then_some(()) }).await;
        self.waiting
    }
}

/// Returns the call `awaited`, for which a request waits.
async fn awaited(client: &Client) -> Option<Value> {
    let calls = client.get("/tool-calls?name=ext").await.ok();
    calls["tool_calls"].as_array().unwrap().iter().find(|call| call["call_id"] == "awaited").cloned()
}

/// Checks that the calls keep running after the end of the caller's key, as after a disconnect.
async fn calls_go_on(operator: &Client, waiting: &str) {
    let awaited = id_of(&awaited(operator).await.unwrap());
    for id in [waiting, &awaited] {
        assert_eq!(operator.in_phase(id, "external").await["status"], "DOING");
        assert_eq!(operator.post(&format!("/tool-calls/{id}/result"), &json!("done")).await.ok()["status"], "SUCCESS");
    }
}

on_both_databases!(
    async fn revoked_key_ends_its_streams_and_waits(backend: Backend) {
        let (_app, operator) = service(backend).await;
        external(&operator).await;
        let (key, id) = operator.key(json!({"scopes": ["call", "read"]})).await;
        let open = Open::with(&operator.with_key(&key)).await;
        let (other, _) = operator.key(json!({"scopes": ["read"]})).await;
        let mut others = operator.with_key(&other).events("/events").await;
        assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
        let waiting = open.ends().await;
        calls_go_on(&operator, &waiting).await;
        others.until(|event| event.is_result() && event.data["id"] == *waiting).await;
    }
);

on_both_databases!(
    async fn expired_key_ends_its_streams_and_waits(backend: Backend) {
        let (_app, operator) = service(backend).await;
        external(&operator).await;
        // The key lasts long enough to open all of them.
        let (key, _) = operator.key(json!({"scopes": ["call", "read"], "expires": "8s"})).await;
        let open = Open::with(&operator.with_key(&key)).await;
        let waiting = open.ends().await;
        calls_go_on(&operator, &waiting).await;
    }
);

on_both_databases!(
    async fn stream_alone_ends_with_its_key_after_other_keys_have_changed(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (key, id) = operator.key(json!({"scopes": ["read"]})).await;
        let mut events = operator.with_key(&key).events("/events").await;
        // Creating a key clears the cache of keys.
        operator.key(json!({"scopes": ["read"]})).await;
        assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
        assert_eq!(events.rest().await, []);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn key_revoked_by_another_node_ends_its_streams() {
    requires_postgres!();
    let (first, operator) = service(Backend::Postgres).await;
    external(&operator).await;
    let second = first.second().await;
    let (key, id) = operator.key(json!({"scopes": ["call", "read"]})).await;
    let there: App = second;
    let client = there.with_key(&key);
    eventually("the key over there", || async { (client.get("/stats").await.status == 200).then_some(()) }).await;
    let open = Open::with(&client).await;
    assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
    let waiting = open.ends().await;
    calls_go_on(&operator, &waiting).await;
}
