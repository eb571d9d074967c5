//! Definitions from a URL.

mod refresh;
mod registered;
mod restart;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::calls::with;
use crate::support::{Answer, App, HttpTool, eventually};

/// A server of definitions that can change its responses.
struct Library {
    server: HttpTool,
    answer: Arc<Mutex<Answer>>,
}

impl Library {
    async fn answering(answer: Answer) -> Self {
        let answer = Arc::new(Mutex::new(answer));
        let says = answer.clone();
        let server = HttpTool::start("127.0.0.1", move |_| says.lock().unwrap().clone()).await;
        Self { server, answer }
    }

    async fn of(document: Value) -> Self {
        Self::answering(Answer::json(&document)).await
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Builds a definition that runs `echo` and loads its description and schema from this server; `more` has further
    /// members.
    fn definition(&self, name: &str, more: Value) -> Value {
        let mut definition = echo_tool(name, json!({"type": "object"}));
        let members = definition.as_object_mut().unwrap();
        members.shift_remove("input_schema");
        members.shift_remove("description");
        members.insert("definition_url".into(), self.server.url("/definition").into());
        members.insert("definition_ttl_ms".into(), 100.into());
        with(definition, more)
    }
}

/// Builds a document with this description and a schema that requires `column`.
fn document(description: &str, column: &str) -> Value {
    let schema = json!({"type": "object", "properties": {column: {"type": "string"}}, "required": [column]});
    json!({"description": description, "input_schema": schema})
}

/// Returns the description and schema for a definition whose URL does not respond.
fn own() -> Value {
    json!({"description": "own", "input_schema": {"type": "object"}})
}

/// Waits until `look` accepts the tool, and returns it.
async fn once(app: &App, name: &str, look: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/tools/{name}");
    eventually("the tool to follow", || async { Some(app.get(&path).await.ok()).filter(|tool| look(tool)) }).await
}
