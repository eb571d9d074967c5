//! Messages to running calls, in the form in which the inbox stores them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::argument_stream::ArgumentChunk;
use crate::domain::{Failure, Outcome, ToolOutput};
use crate::store::StoreError;

use crate::store::inbox::{CANCEL, CHUNK, DECISION, Message, PROGRESS, RESULT};

/// A message to a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ControlMessage {
    Cancel,
    /// The approval of the call has changed.
    Decision,
    Progress {
        report: Value,
    },
    Result {
        answer: WireOutput,
    },
    Chunk {
        chunk: ArgumentChunk,
    },
}

/// The stored form of a tool output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WireOutput {
    Nothing,
    Text(String),
    Json(Value),
    Image {
        data: String,
        mime_type: String,
    },
    /// The call ended with this failure before a result was posted.
    Failure {
        failure: Failure,
        text: String,
    },
}

impl ControlMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Cancel => CANCEL,
            Self::Decision => DECISION,
            Self::Progress { .. } => PROGRESS,
            Self::Result { .. } => RESULT,
            Self::Chunk { .. } => CHUNK,
        }
    }

    pub fn message(&self, call: Uuid) -> Result<Message, StoreError> {
        let body = serde_json::to_string(self).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Message { call, kind: self.kind().to_owned(), body })
    }
}

impl From<ToolOutput> for WireOutput {
    fn from(answer: ToolOutput) -> Self {
        match answer {
            ToolOutput::Text(text) => Self::Text(text),
            ToolOutput::Json(value) => Self::Json(value),
            ToolOutput::Data(value) => Self::Json(Arc::unwrap_or_clone(value)),
            ToolOutput::Image { bytes, mime_type } => Self::Image { data: STANDARD.encode(bytes), mime_type },
            ToolOutput::Nothing | ToolOutput::Outcome(_) => Self::Nothing,
        }
    }
}

impl From<WireOutput> for ToolOutput {
    fn from(answer: WireOutput) -> Self {
        match answer {
            WireOutput::Nothing => Self::Nothing,
            WireOutput::Text(text) => Self::Text(text),
            WireOutput::Json(value) => Self::Json(value),
            WireOutput::Image { data, mime_type } => match STANDARD.decode(data) {
                Ok(bytes) => Self::Image { bytes, mime_type },
                Err(_) => Self::Nothing,
            },
            WireOutput::Failure { failure, text } => {
                Self::Outcome(Box::new(Outcome::from(Failure { text, ..failure })))
            }
        }
    }
}
