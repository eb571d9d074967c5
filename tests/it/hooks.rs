//! Hooks: who is asked around calls, and what becomes of the answer.

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::{Answer, App, Client, HttpTool};

mod after;
mod builtins;
mod faults;
mod nodes;
mod payload;
mod persist;
mod before;
mod registry;
mod rust;

impl Client {
    /// Registers a webhook at `receiver` under `path`; its id.
    async fn hook(&self, event: &str, receiver: &HttpTool, path: &str, more: Value) -> String {
        self.declared(with(json!({"event": event, "url": receiver.url(path)}), more)).await
    }

    /// Registers a hook; its id.
    async fn declared(&self, hook: Value) -> String {
        let answer = self.post("/hooks", &hook).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), format!("/hooks/{id}"));
        id
    }
}

/// A receiver that says nothing.
async fn silent() -> HttpTool {
    HttpTool::answering(Answer::status(204, "text/plain", "")).await
}

/// A receiver that gives this answer.
async fn saying(answer: Value) -> HttpTool {
    HttpTool::answering(Answer::json(&answer)).await
}

/// All events of a call that has ended.
async fn history(app: &App, id: &Value) -> Vec<crate::support::Event> {
    app.events(&format!("/tool-calls/{}/events", id.as_str().unwrap())).await.rest().await
}
