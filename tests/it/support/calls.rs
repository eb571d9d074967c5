//! Detached calls: creating them, finding them, and waiting for their progress.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::config::Config;

use super::app::http_tool;
use super::client::send;
use super::{Answer, App, Backend, Client, HttpTool, Options, Response, eventually};

impl App {
    /// Starts a service with other settings whose `http` tools may reach the test's own servers.
    pub async fn tuned(backend: Backend, configure: fn(&mut Config)) -> Self {
        let egress_allow = vec!["127.0.0.1".into()];
        Self::start_with(backend, Options { egress_allow, configure: Some(configure), ..Options::default() }).await
    }
}

impl Client {
    /// Registers an `http` tool of `server` with further members in its definition.
    pub async fn tool(&self, name: &str, server: &HttpTool, more: Value) -> Value {
        self.register(tool(name, server, more)).await
    }

    /// Posts a body with further headers.
    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        let request = headers.iter().fold(self.request(Method::POST, path), |request, (k, v)| request.header(*k, *v));
        send(request.json(body)).await
    }

    /// Posts an empty body.
    pub async fn post_empty(&self, path: &str) -> Response {
        send(self.request(Method::POST, path)).await
    }

    /// Posts calls in a separate task that waits for the response.
    pub fn posted(&self, body: Value) -> JoinHandle<Response> {
        let client = self.clone();
        tokio::spawn(async move { client.post("/tool-calls", &body).await })
    }

    /// Sends a call that is answered with 202 and a location before its end. Returns its id.
    pub async fn accepted(&self, body: Value) -> String {
        let answer = self.post("/tool-calls", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let id = id_of(&answer.json);
        assert_eq!(answer.header("location"), format!("/tool-calls/{id}"));
        id
    }

    /// Sends a call that may or may not have ended when it is answered. Returns its id.
    pub async fn sent(&self, body: Value) -> String {
        let answer = self.post("/tool-calls", &body).await;
        assert!([200, 202].contains(&answer.status), "{}", answer.text());
        assert_eq!(answer.status == 200, has_ended(&answer.json));
        id_of(&answer.json)
    }

    /// Waits until the call has ended, and returns it.
    pub async fn ended(&self, id: &str) -> Value {
        eventually("the call to end", || async { Some(self.stored(id).await).filter(has_ended) }).await
    }

    /// Waits until the call is in this phase, and returns it.
    pub async fn in_phase(&self, id: &str, phase: &str) -> Value {
        eventually(phase, || async { Some(self.stored(id).await).filter(|call| call["phase"] == phase) }).await
    }

    /// Requests the cancellation of a call.
    pub async fn cancel(&self, id: &str) -> Response {
        let answer = self.post_empty(&format!("/tool-calls/{id}/cancel")).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer
    }

    /// Returns all stored calls.
    pub async fn all_calls(&self) -> Vec<Value> {
        let page = self.get("/tool-calls?limit=500").await.ok();
        page["tool_calls"].as_array().unwrap().clone()
    }

    /// Waits for the only call of this name and returns its id.
    pub async fn only(&self, name: &str) -> String {
        let path = format!("/tool-calls?name={name}");
        let found = eventually("the call to be there", || async {
            let page = self.get(&path).await.ok();
            let calls = page["tool_calls"].as_array().unwrap();
            assert!(calls.len() < 2, "{page:#}");
            calls.first().map(id_of)
        });
        found.await
    }
}

/// Builds the definition of an `http` tool that accepts any object and posts it to `server`, with further members.
pub fn tool(name: &str, server: &HttpTool, more: Value) -> Value {
    with(http_tool(name, json!({"url": server.url("/run")})), more)
}

/// Adds the members of `more` to an object.
pub fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Returns the annotations of a tool that may run again.
pub fn idempotent() -> Value {
    json!({"idempotent": true})
}

/// Starts a server that answers every request with `text` once it is opened.
pub async fn gated(text: &str) -> HttpTool {
    HttpTool::answering(Answer::AfterGate(Box::new(Answer::text(text)))).await
}

/// Returns the id that Toolpost gave a call.
pub fn id_of(call: &Value) -> String {
    call["id"].as_str().unwrap_or_else(|| panic!("no id in {call:#}")).to_owned()
}

/// Returns `true` if the status is terminal.
pub fn has_ended(call: &Value) -> bool {
    call["status"] == "SUCCESS" || call["status"] == "ERROR"
}

/// Checks that the stats have these values.
pub fn assert_counts(stats: &Value, expected: Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(stats[name], *value, "{name} in {stats:#}");
    }
}
