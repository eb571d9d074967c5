//! Calls and events as the service sends them. Unknown members are ignored, so that the service may be newer.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::domain::call::Coercion;
use crate::domain::{Approval, Progress, Status, Time};

/// A ToolCall.
#[derive(Debug, Clone, Deserialize)]
pub struct CallView {
    pub id: Uuid,
    pub name: String,
    pub session: Option<String>,
    pub status: Status,
    pub phase: String,
    pub arguments: Value,
    pub effective_arguments: Option<Value>,
    pub output: Option<String>,
    #[serde(default)]
    pub content: Vec<Value>,
    pub error: Option<ErrorView>,
    #[serde(default)]
    pub coerced: Vec<Coercion>,
    pub approval: Option<Approval>,
    #[serde(default)]
    pub attempts: u32,
    #[serde(default)]
    pub cached: bool,
    #[serde(default)]
    pub queued_ms: u64,
    pub duration_ms: Option<u64>,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    #[serde(default)]
    pub node: String,
}

/// The failure of a call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ErrorView {
    pub code: String,
    pub message: String,
}

/// The data of an event of a call. Each kind of event has some of the members.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct EventData {
    pub id: Uuid,
    pub name: String,
    pub session: Option<String>,
    pub arguments: Value,
    pub status: Option<Status>,
    pub phase: Option<String>,
    pub tip: Option<String>,
    pub progress: Option<Progress>,
    pub content: Vec<Value>,
    pub output: Option<String>,
    pub error: Option<ErrorView>,
    pub at: Option<Time>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub duration_ms: Option<u64>,
}

impl EventData {
    /// Returns the time of the event, if its data has one.
    pub fn time(&self) -> Option<Time> {
        self.at.or(self.ended_at).or(self.started_at)
    }
}

/// Returns the lines of the text blocks of a content, and a note for any other block.
pub fn content_lines(content: &[Value]) -> Vec<String> {
    content
        .iter()
        .flat_map(|block| match block["text"].as_str().filter(|_| block["type"] == "text") {
            Some(text) => text.lines().map(str::to_owned).collect(),
            None => vec![format!("({})", block["mime_type"].as_str().or(block["type"].as_str()).unwrap_or("block"))],
        })
        .collect()
}
