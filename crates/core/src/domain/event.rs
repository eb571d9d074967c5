//! Events of calls, as subscribers see them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Call, ContentBlock, json};

/// The name of an event on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The call was accepted. Sent once.
    ToolCall,
    /// The status changed. Contains the accumulated state.
    Status,
    /// The running tool emitted content, which is never part of `output`.
    Progress,
    /// The call ended. Sent once, with the result.
    ToolResult,
    /// A hook failed.
    HookError,
    /// All calls of one request have ended.
    Batch,
    /// The state of a session.
    Session,
}

impl EventKind {
    /// Returns the `event:` field of the stream.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::Status => "status",
            Self::Progress => "progress",
            Self::ToolResult => "tool_result",
            Self::HookError => "hook_error",
            Self::Batch => "batch",
            Self::Session => "session",
        }
    }
}

/// The content of an event. Only `Reported` is stored, because all others can be derived from the call.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// The call was accepted: the `tool_call` event.
    Accepted,
    /// The call waits: the first `status` event.
    Waiting,
    /// The tool started: a `status` event.
    Started,
    /// The tool reported something, already serialized.
    Reported(Arc<Reported>),
    /// The call ended: the last `status` event.
    Settled,
    /// The result of the call: the `tool_result` event.
    Result,
}

/// An event that cannot be derived from the call: a report of the running tool or of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The number within the call.
    pub seq: u32,
    /// `Status`, `Progress` or `HookError`.
    pub kind: EventKind,
    /// The data as JSON.
    pub data: String,
}

/// An event of a call.
#[derive(Debug, Clone)]
pub struct Event {
    /// The position among all events of the service, from which a stream resumes.
    pub pos: i64,
    /// The number within the call, from 1 without a gap.
    pub seq: u32,
    /// The call at the time of the event or later.
    pub call: Arc<Call>,
    /// The content of the event.
    pub stage: Stage,
}

impl Event {
    /// Returns the name of the event on the wire.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match &self.stage {
            Stage::Accepted => EventKind::ToolCall,
            Stage::Waiting | Stage::Started | Stage::Settled => EventKind::Status,
            Stage::Reported(reported) => reported.kind,
            Stage::Result => EventKind::ToolResult,
        }
    }
}

impl Emission {
    /// Returns the approximate size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let of_block = |block: &ContentBlock| match block {
            ContentBlock::Text(text) => text.len(),
            ContentBlock::Image { data, .. } => data.len(),
            ContentBlock::Other(members) => json::size_of(members),
        };
        self.content.iter().map(of_block).sum::<usize>() + json::size_of(&self.details)
    }
}

/// Content that a running tool emits for people.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emission {
    /// Typed blocks.
    pub content: Vec<ContentBlock>,
    /// Data for the user interface.
    pub details: Map<String, Value>,
}

impl From<Vec<ContentBlock>> for Emission {
    fn from(content: Vec<ContentBlock>) -> Self {
        Self { content, details: Map::new() }
    }
}

impl From<ContentBlock> for Emission {
    fn from(block: ContentBlock) -> Self {
        vec![block].into()
    }
}

impl From<String> for Emission {
    fn from(text: String) -> Self {
        ContentBlock::Text(text).into()
    }
}

impl From<&str> for Emission {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
