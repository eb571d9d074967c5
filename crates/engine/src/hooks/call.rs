//! The view of a call that a hook receives. It never contains presets or context.

use std::sync::Arc;

use bytes::Bytes;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use toolpost_core::domain::{Agent, Call, ContentBlock, Failure, HookEvent, Outcome};

/// A call as a hook sees it.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The event of the hook.
    pub event: HookEvent,
    /// The service's id of the call.
    pub id: Uuid,
    /// The caller's id of the call.
    pub call_id: Arc<str>,
    /// The name of the tool.
    pub name: Arc<str>,
    /// The valid arguments, as earlier hooks have left them.
    pub arguments: Arc<Value>,
    /// The id of the session.
    pub session: Option<Arc<str>>,
    /// The agent that makes the call.
    pub agent: Option<Arc<Agent>>,
    /// The outcome; `None` before the tool runs.
    pub result: Option<Arc<Outcome>>,
    /// The duration of the run, in milliseconds.
    pub duration_ms: Option<u64>,
}

impl HookCall {
    /// Creates the view of a call.
    #[must_use]
    pub fn of(event: HookEvent, call: &Call) -> Self {
        Self {
            event,
            id: call.id,
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            arguments: call.effective_arguments.clone().unwrap_or_else(|| call.arguments.clone()),
            session: call.session.clone(),
            agent: call.agent.clone(),
            result: call.outcome.clone(),
            duration_ms: call.duration_ms(),
        }
    }

    /// Returns the body of a webhook request.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let body = Body {
            event: self.event,
            call: Subject { id: self.id, call_id: &self.call_id, name: &self.name, arguments: &self.arguments },
            session: self.session.as_deref(),
            agent: self.agent.as_deref(),
            result: self.result.as_deref().map(OutcomePayload::of),
            duration_ms: self.duration_ms,
        };
        // Serialization cannot fail: all keys are strings, and all numbers were parsed from JSON.
        serde_json::to_vec(&body).unwrap_or_default().into()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    event: HookEvent,
    call: Subject<'a>,
    session: Option<&'a str>,
    agent: Option<&'a Agent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<OutcomePayload<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

#[derive(Serialize)]
struct Subject<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Value,
}

#[derive(Serialize)]
struct OutcomePayload<'a> {
    output: &'a str,
    #[serde(serialize_with = "without_images")]
    content: &'a [ContentBlock],
    structured: Option<&'a Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: &'a Map<String, Value>,
    is_error: bool,
    error: Option<&'a Failure>,
}

impl<'a> OutcomePayload<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        Self {
            output: &outcome.output,
            content: &outcome.content,
            structured: outcome.structured.as_deref(),
            details: &outcome.details,
            is_error: outcome.is_error(),
            error: outcome.error.as_ref(),
        }
    }
}

/// Serializes content blocks without the data of images.
fn without_images<S: Serializer>(content: &&[ContentBlock], serializer: S) -> Result<S::Ok, S::Error> {
    let mut blocks = serializer.serialize_seq(Some(content.len()))?;
    for block in *content {
        match block {
            ContentBlock::Image { data, mime_type } => {
                let bytes = data.trim_end_matches('=').len() * 3 / 4;
                let omitted = json!({"type": "image", "mime_type": mime_type, "omitted": true, "bytes": bytes});
                blocks.serialize_element(&omitted)?;
            }
            other => blocks.serialize_element(other)?,
        }
    }
    blocks.end()
}
