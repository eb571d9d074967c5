//! Messages to running calls, in the form in which the inbox stores them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::arguments::stream::ArgumentChunk;
use toolpost_core::domain::{Failure, Outcome, ToolOutput};
use toolpost_store::store::StoreError;
use toolpost_tool::executor::PostedResult;

use toolpost_store::store::inbox::{CANCEL, CHUNK, DECISION, Message, PROGRESS, RESULT};

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
        /// The digest of the result. A node of the previous release sends none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<i64>,
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
    /// Creates the message that delivers a posted result.
    pub fn result(result: PostedResult) -> Self {
        Self::Result { answer: result.output.into(), digest: Some(result.digest) }
    }

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

/// Returns the posted result that a message delivers.
pub(super) fn posted_result(answer: WireOutput, digest: Option<i64>) -> PostedResult {
    let output = ToolOutput::from(answer);
    match digest {
        Some(digest) => PostedResult { output, digest },
        None => output.into(),
    }
}

impl From<ToolOutput> for WireOutput {
    fn from(answer: ToolOutput) -> Self {
        match answer {
            ToolOutput::Text(text) => Self::Text(text),
            ToolOutput::Json(value) | ToolOutput::Corrected(value, _) => Self::Json(value),
            ToolOutput::Data(value) => Self::Json(Arc::unwrap_or_clone(value)),
            ToolOutput::Image { bytes, mime_type } => Self::Image { data: STANDARD.encode(bytes), mime_type },
            ToolOutput::Nothing => Self::Nothing,
            // A posted result is an outcome only if its JSON has a number that cannot be represented.
            ToolOutput::Outcome(outcome) => Self::Text(outcome.output),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stored_result_is_the_posted_one() {
        let image = ToolOutput::Image { bytes: vec![1, 2], mime_type: "image/png".to_owned() };
        for output in [
            ToolOutput::Nothing,
            ToolOutput::Json(Value::Null),
            ToolOutput::Json(json!({"output": null, "n": 1.5})),
            ToolOutput::Text("null".to_owned()),
            image,
        ] {
            let result = PostedResult::from(output);
            let message = ControlMessage::result(result.clone()).message(Uuid::nil()).unwrap();
            let Ok(ControlMessage::Result { answer, digest }) = serde_json::from_str(&message.body) else {
                panic!("{}", message.body)
            };
            assert_eq!(posted_result(answer, digest), result, "{}", message.body);
        }
    }

    #[test]
    fn a_result_that_a_node_of_the_previous_release_has_stored_is_read() {
        let body = r#"{"kind":"result","answer":{"json":null}}"#;
        let Ok(ControlMessage::Result { answer, digest }) = serde_json::from_str(body) else { panic!("{body}") };
        assert_eq!(posted_result(answer, digest), PostedResult::from(ToolOutput::Json(Value::Null)));
    }
}
