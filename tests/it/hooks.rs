//! Hooks: their order around calls, and the effect of their responses.

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::{Answer, App, Client, HttpTool};

mod after;
mod before;
mod builtins;
mod faults;
mod nodes;
mod payload;
mod persist;
mod registry;
mod rust;

impl Client {
    /// Registers a webhook at `receiver` under `path` and returns its id.
    pub async fn hook(&self, event: &str, receiver: &HttpTool, path: &str, more: Value) -> String {
        self.declared(with(json!({"event": event, "url": receiver.url(path)}), more)).await
    }

    /// Registers a hook and returns its id.
    async fn declared(&self, hook: Value) -> String {
        let answer = self.post("/hooks", &hook).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), format!("/hooks/{id}"));
        id
    }
}

/// Starts a receiver that sends empty responses.
async fn silent() -> HttpTool {
    HttpTool::answering(Answer::status(204, "text/plain", "")).await
}

/// Starts a receiver that sends this response.
async fn saying(answer: Value) -> HttpTool {
    HttpTool::answering(Answer::json(&answer)).await
}

/// Returns all events of an ended call.
async fn history(app: &App, id: &Value) -> Vec<crate::support::Event> {
    app.events(&format!("/tool-calls/{}/events", id.as_str().unwrap())).await.rest().await
}
