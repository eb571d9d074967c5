//! A call in the service's own shape: the ToolCall of docs/reference/contract.md, section 3.

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

/// One tool call with all that has happened to it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCall)]
pub struct ToolCall<'a> {
    /// The service's id (UUIDv7).
    id: Uuid,
    /// The caller's id; the service's where none was given.
    call_id: &'a str,
    /// The tool's name as it was asked for.
    name: &'a str,
    /// The tool's display name.
    title: &'a str,
    /// The conversation that it belongs to.
    session: Option<&'a str>,
    /// The batch that it came in.
    batch_id: Option<Uuid>,
    /// Its place in the batch.
    index: u32,
    /// Where it stands.
    status: Status,
    /// What it is doing.
    phase: Phase,
    /// As given.
    #[schema(value_type = Value)]
    arguments: Effective<'a>,
    /// After coercion and defaults; `null` where they were not valid.
    #[schema(value_type = Option<Object>)]
    effective_arguments: Option<Effective<'a>>,
    /// One line for people.
    tip: Option<&'a str>,
    /// How far it is.
    progress: Option<&'a Progress>,
    /// The text for the model; `null` before the end.
    output: Option<&'a str>,
    /// What the model is shown; typed blocks.
    #[schema(value_type = Vec<Object>)]
    content: Content<'a>,
    /// The value as data, for programs.
    #[schema(value_type = Option<Value>)]
    structured: Option<Data<'a>>,
    /// For people only; no model ever sees it. `null` before the end.
    #[schema(value_type = Option<Object>)]
    details: Option<Details<'a>>,
    /// Whether it ended badly.
    is_error: bool,
    /// Why it ended badly.
    #[schema(value_type = Option<Failure>)]
    error: Option<Fault<'a>>,
    /// Runs begun, also those that were lost with their process.
    attempts: u32,
    /// Whether the result comes from the cache.
    cached: bool,
    /// What was mended in the arguments.
    coerced: &'a [Coercion],
    /// Facts, merged over the whole call. `estimated` names the durations that span a restart: such a one is the difference of
    /// the times, but at least what the last process has measured, and a run at most that and the time that its attempts
    /// before the restart were allowed.
    #[schema(value_type = Object)]
    metadata: &'a Map<String, Value>,
    /// Bounds in force; `null` where no tool was found.
    limits: Option<Limits>,
    /// From acceptance to the start of the tool. Measured with a monotonic clock, so it may differ from the times' difference
    /// if the wall clock was set meanwhile; see `metadata` for a duration that spans a restart.
    queued_ms: u64,
    /// From the start of the tool to the end, measured as `queued_ms`; `null` before the end.
    duration_ms: Option<u64>,
    /// When it was accepted.
    created_at: Time,
    /// When the tool started.
    started_at: Option<Time>,
    /// When it ended.
    ended_at: Option<Time>,
    /// The node that ran it.
    node: &'a str,
    /// All of it, where that was written ahead.
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
                // Mostly nothing was mended, and their text is there already.
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
    /// The call as an event shows it: long outputs cut, images left out.
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

/// What a batch answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BatchAnswer)]
pub struct BatchAnswer<'a> {
    /// The batch's id; `null` for a single call.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub results: Vec<ToolCall<'a>>,
    /// What the caller appends to its conversation, in the shape of its model's vendor. Only where a model's message or
    /// `format` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<Value>,
}

impl BatchAnswer<'_> {
    /// The answer to a model's message without calls.
    #[must_use]
    pub fn nothing() -> Self {
        Self { batch_id: None, results: Vec::new(), messages: Some(Value::Array(Vec::new())) }
    }
}
