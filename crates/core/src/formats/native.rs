//! The native format of a call: the ToolCall of docs/reference/contract.md, section 3.

use std::sync::Arc;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::cut::{self, ShortContent, ShortFailure, ShortValue};
use crate::domain::call::{Call, CallFormat, Coercion, Phase, Progress, Status};
use crate::domain::{Approval, ContentBlock, Failure, JsonText, Limits, Outcome, Time};

mod write;

pub use write::Pieces;

/// A tool call with its status, arguments and result.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCall)]
pub struct ToolCall<'a> {
    /// Id assigned by Toolpost (UUIDv7).
    id: Uuid,
    /// Id assigned by the caller; the service's id if none was given.
    call_id: &'a str,
    /// Name of the tool, as requested.
    name: &'a str,
    /// Display name of the tool.
    title: &'a str,
    /// Session of the call.
    session: Option<&'a str>,
    /// Batch of the call.
    batch_id: Option<Uuid>,
    /// Position in the batch.
    index: u32,
    /// Status of the call.
    status: Status,
    /// Current phase of the call.
    phase: Phase,
    /// Arguments as given.
    #[schema(value_type = Value)]
    arguments: Data<'a>,
    /// Arguments after coercion and defaults; `null` if they were invalid.
    #[schema(value_type = Option<Object>)]
    effective_arguments: Option<Data<'a>>,
    /// Line about the current activity, for people.
    tip: Option<&'a str>,
    /// Progress reported by the tool.
    progress: Option<&'a Progress>,
    /// Text for the model; `null` before the end.
    output: Option<&'a str>,
    /// Typed content blocks for the model.
    #[schema(value_type = Vec<Object>)]
    content: FullOrShort<&'a [ContentBlock], ShortContent<'a>>,
    /// Result as data, for programs.
    #[schema(value_type = Option<Value>)]
    structured: Option<Data<'a>>,
    /// Details for people, never sent to a model; `null` before the end.
    #[schema(value_type = Option<Object>)]
    details: Option<Details<'a>>,
    /// `true` if the call failed.
    is_error: bool,
    /// Reason of the failure.
    #[schema(value_type = Option<Failure>)]
    error: Option<FullOrShort<&'a Failure, ShortFailure<'a>>>,
    /// Number of started attempts, including those lost with their process.
    attempts: u32,
    /// `true` if the result comes from the cache.
    cached: bool,
    /// Coercions applied to the arguments.
    coerced: &'a [Coercion],
    /// Metadata, merged over the whole call. `estimated` names the durations that span a restart. Such a duration is
    /// the difference of the timestamps, but at least what the last process measured. A run is at most that plus the
    /// time that its attempts before the restart were allowed.
    #[schema(value_type = Object)]
    metadata: &'a Map<String, Value>,
    /// Approval, if the call needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a Approval>,
    /// Limits in force; `null` if the tool was not found.
    limits: Option<Limits>,
    /// Time from acceptance to the start of the tool, in milliseconds. It is measured with a monotonic clock, so it may
    /// differ from the difference of the timestamps if the wall clock was changed; see `metadata` for a duration that
    /// spans a restart.
    queued_ms: u64,
    /// Time from the start of the tool to the end, in milliseconds, measured like `queued_ms`; `null` before the end.
    duration_ms: Option<u64>,
    /// Time of acceptance.
    created_at: Time,
    /// Time when the tool started.
    started_at: Option<Time>,
    /// Time when the call ended.
    ended_at: Option<Time>,
    /// Node that ran the call.
    node: &'a str,
    /// The prerendered JSON of the call, if any.
    #[serde(skip)]
    written: Option<&'a Bytes>,
}

/// A part of a call, in full or with long texts truncated.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum FullOrShort<F, S> {
    Full(F),
    Short(S),
}

/// A JSON value of a call.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Data<'a> {
    /// Already serialized.
    Text(&'a JsonText),
    /// Not yet serialized.
    Value(&'a Value),
    /// With long texts truncated.
    Short(ShortValue<'a>),
}

impl<'a> Data<'a> {
    /// Returns the `structured` of an outcome, if it has any.
    #[must_use]
    pub fn of(outcome: &'a Outcome) -> Option<Self> {
        let text = outcome.structured_text.as_ref().map(Self::Text);
        text.or_else(|| outcome.structured.as_deref().map(Self::Value))
    }

    fn short(value: &'a Value) -> Self {
        Self::Short(ShortValue(value))
    }
}

/// The `details` of an ended call for people: the tool's own details, and facts that every call has. The facts replace
/// a tool's own members of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Details<'a> {
    /// The call.
    pub call: &'a Call,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// `true` if long texts are truncated.
    pub is_short: bool,
}

/// The names of the facts, which are reserved.
const FACTS: [&str; 3] = ["execution_time_ms", "tool_name", "success"];

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.outcome.details.iter().filter(|(name, _)| !FACTS.contains(&name.as_str()));
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in own {
            match self.is_short {
                true => map.serialize_entry(name, &ShortValue(value))?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.serialize_entry(FACTS[0], &self.call.duration_ms().unwrap_or(0))?;
        map.serialize_entry(FACTS[1], &*self.call.name)?;
        map.serialize_entry(FACTS[2], &!self.outcome.is_error())?;
        map.end()
    }
}

impl<'a> From<&'a Call> for ToolCall<'a> {
    fn from(call: &'a Call) -> Self {
        let outcome = call.outcome.as_deref();
        Self {
            id: call.id,
            call_id: &call.call_id,
            name: &call.name,
            title: &call.title,
            session: call.session.as_deref(),
            batch_id: call.batch_id,
            index: call.index,
            status: call.status,
            phase: call.phase,
            arguments: Data::Text(&call.arguments_text),
            // Most arguments need no coercion, and their JSON text already exists.
            effective_arguments: call.effective_arguments.as_ref().map(|effective| {
                match Arc::ptr_eq(effective, &call.arguments) {
                    true => Data::Text(&call.arguments_text),
                    false => Data::Value(effective),
                }
            }),
            tip: call.tip.as_deref(),
            progress: call.progress.as_ref(),
            output: outcome.map(|outcome| outcome.output.as_str()),
            content: FullOrShort::Full(outcome.map_or(&[], |outcome| outcome.content.as_slice())),
            structured: outcome.and_then(Data::of),
            details: outcome.map(|outcome| Details { call, outcome, is_short: false }),
            is_error: outcome.is_some_and(Outcome::is_error),
            error: outcome.and_then(|outcome| outcome.error.as_ref()).map(FullOrShort::Full),
            attempts: call.runs(),
            cached: call.cached,
            coerced: &call.coerced,
            metadata: &call.metadata,
            approval: call.approval.as_deref(),
            limits: call.limits,
            queued_ms: call.queued_ms(),
            duration_ms: call.duration_ms(),
            created_at: call.created_at,
            started_at: call.started_at,
            ended_at: call.ended_at,
            node: &call.node,
            written: call.written.get(CallFormat::Native),
        }
    }
}

impl<'a> ToolCall<'a> {
    /// Creates the call as an event shows it, with long outputs truncated and images omitted.
    #[must_use]
    pub fn short(call: &'a Call) -> Self {
        let whole = Self::from(call);
        let outcome = call.outcome.as_deref();
        let blocks = outcome.map_or(&[][..], |outcome| outcome.content.as_slice());
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        Self {
            written: None,
            output: whole.output.map(cut::text),
            content: FullOrShort::Short(ShortContent { call: Some(call.id), blocks }),
            details: outcome.map(|outcome| Details { call, outcome, is_short: true }),
            arguments: Data::short(&call.arguments),
            effective_arguments: call.effective_arguments.as_deref().map(Data::short),
            structured: outcome.and_then(|outcome| outcome.structured.as_deref()).map(Data::short),
            error: error.map(|error| FullOrShort::Short(ShortFailure(error))),
            ..whole
        }
    }
}

/// The response to a batch.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BatchAnswer)]
pub struct BatchAnswer<'a> {
    /// Id of the batch; `null` for a single call.
    pub batch_id: Option<Uuid>,
    /// Calls in request order.
    pub results: Vec<ToolCall<'a>>,
    /// Messages to append to the conversation, in the format of the model's vendor. Only if the request was a model's
    /// message or set `format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<Value>,
}

impl BatchAnswer<'_> {
    /// Creates the response to a model's message without calls.
    #[must_use]
    pub fn nothing() -> Self {
        Self { batch_id: None, results: Vec::new(), messages: Some(Value::Array(Vec::new())) }
    }
}
