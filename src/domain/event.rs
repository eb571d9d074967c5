//! The kinds of events that a call gives.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ContentBlock;

/// The name of an event on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Once, on acceptance.
    ToolCall,
    /// At every change, with the whole accumulated state.
    Status,
    /// Something that the running tool emitted; never part of `output`.
    Progress,
    /// Once, at the end.
    ToolResult,
    /// All calls of one request have settled.
    Batch,
}

impl EventKind {
    /// The `event:` field of the stream.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::Status => "status",
            Self::Progress => "progress",
            Self::ToolResult => "tool_result",
            Self::Batch => "batch",
        }
    }

    /// Reads the name back.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::ToolCall, Self::Status, Self::Progress, Self::ToolResult, Self::Batch]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// Something that a running tool emits for people to see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emission {
    /// Typed blocks.
    pub content: Vec<ContentBlock>,
    /// Data for the user interface.
    pub details: Map<String, Value>,
}
