//! The native format of a call: the ToolCall of docs/reference/contract.md, section 3.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::cut;
use super::data::Data;
use super::details::Details;
use crate::domain::call::{Call, Coercion, Phase, Progress, Status};
use crate::domain::{ContentBlock, Failure, JsonText, Limits, Time};

mod pieces;
mod write;

pub use pieces::Pieces;

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
    arguments: Effective<'a>,
    /// Arguments after coercion and defaults; `null` if they were invalid.
    #[schema(value_type = Option<Object>)]
    effective_arguments: Option<Effective<'a>>,
    /// Line about the current activity, for people.
    tip: Option<&'a str>,
    /// Progress reported by the tool.
    progress: Option<&'a Progress>,
    /// Text for the model; `null` before the end.
    output: Option<&'a str>,
    /// Typed content blocks for the model.
    #[schema(value_type = Vec<Object>)]
    content: Content<'a>,
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
    error: Option<Fault<'a>>,
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

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Effective<'a> {
    AsGiven(&'a JsonText),
    Mended(&'a Value),
    Short(cut::ShortValue<'a>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Fault<'a> {
    Whole(&'a Failure),
    Short(cut::ShortFailure<'a>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Whole(&'a [ContentBlock]),
    Short(cut::ShortContent<'a>),
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
            arguments: Effective::AsGiven(&call.arguments_text),
            effective_arguments: call.effective_arguments.as_ref().map(|effective| {
                // Most arguments need no coercion, and their JSON text already exists.
                match Arc::ptr_eq(effective, &call.arguments) {
                    true => Effective::AsGiven(&call.arguments_text),
                    false => Effective::Mended(effective),
                }
            }),
            tip: call.tip.as_deref(),
            progress: call.progress.as_ref(),
            output: outcome.map(|outcome| outcome.output.as_str()),
            content: Content::Whole(outcome.map_or(&[], |outcome| outcome.content.as_slice())),
            structured: outcome.and_then(Data::of),
            details: outcome.map(|outcome| Details::whole(call, outcome)),
            is_error: outcome.is_some_and(crate::domain::Outcome::is_error),
            error: outcome.and_then(|outcome| outcome.error.as_ref()).map(Fault::Whole),
            attempts: call.runs(),
            cached: call.cached,
            coerced: &call.coerced,
            metadata: &call.metadata,
            limits: call.limits,
            queued_ms: call.queued_ms(),
            duration_ms: call.duration_ms(),
            created_at: call.created_at,
            started_at: call.started_at,
            ended_at: call.ended_at,
            node: &call.node,
            written: call.written.get(),
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
        Self {
            written: None,
            output: whole.output.map(cut::text),
            content: Content::Short(cut::ShortContent { call: Some(call.id), blocks }),
            details: call.outcome.as_deref().map(|outcome| Details::short(call, outcome)),
            arguments: Effective::Short(cut::ShortValue(&call.arguments)),
            effective_arguments: call
                .effective_arguments
                .as_deref()
                .map(|value| Effective::Short(cut::ShortValue(value))),
            structured: outcome.and_then(|outcome| outcome.structured.as_deref()).map(Data::Short),
            error: outcome
                .and_then(|outcome| outcome.error.as_ref())
                .map(|error| Fault::Short(cut::ShortFailure(error))),
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
