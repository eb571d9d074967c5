//! What a call tells whoever watches it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Call, ContentBlock, json};

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
    /// A hook failed.
    HookError,
    /// All calls of one request have settled.
    Batch,
    /// How a session stands.
    Session,
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
            Self::HookError => "hook_error",
            Self::Batch => "batch",
            Self::Session => "session",
        }
    }
}

/// What has happened. All but `Reported` can be told from the call itself, so only that is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// The call was accepted: the `tool_call` event.
    Accepted,
    /// It waits: the first `status` event.
    Waiting,
    /// Its tool has started: a `status` event.
    Started,
    /// Its tool has reported something, already serialised.
    Reported(Arc<Reported>),
    /// It has ended: the last `status` event.
    Settled,
    /// Its result: the `tool_result` event.
    Result,
}

/// An event that does not follow from the call: what its running tool or a hook had to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Its number within the call.
    pub seq: u32,
    /// `Status`, `Progress` or `HookError`.
    pub kind: EventKind,
    /// Its data as JSON.
    pub data: String,
}

/// One event of one call.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its place among all events of the service: what a stream resumes from.
    pub pos: i64,
    /// Its number within the call, from 1 without a gap.
    pub seq: u32,
    /// The call, as it was then or later.
    pub call: Arc<Call>,
    /// What has happened.
    pub stage: Stage,
}

impl Event {
    /// Its name on the wire.
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
    /// About how many bytes it holds.
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

/// Something that a running tool emits for people to see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emission {
    /// Typed blocks.
    pub content: Vec<ContentBlock>,
    /// Data for the user interface.
    pub details: Map<String, Value>,
}
