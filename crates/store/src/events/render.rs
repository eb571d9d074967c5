//! The data of events (docs/reference/contract.md, section 6). An event has the same data live and read from the store.

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use toolpost_core::domain::call::{Call, Phase, Progress, Status};
use toolpost_core::domain::event::{Emission, Event, Stage};
use toolpost_core::domain::{Approval, Failure, HookFault, Outcome, Time};
use toolpost_core::formats::cut::{self, ShortContent, ShortFailure, ShortMap, ShortValue};
use toolpost_core::formats::native::Details;

/// The identity of the call of an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Subject<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<Uuid>,
    /// The event's number within the call, counted from 1 without gaps.
    seq: u32,
}

/// Data of `tool_call`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCallEvent)]
pub struct ToolCallEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    title: &'a str,
    /// As given; `null` if the arguments are streamed.
    #[schema(value_type = Value)]
    arguments: ShortValue<'a>,
    at: Time,
    /// The URL of the full call, if a long text was truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Data of `status`: the full accumulated state.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = StatusEvent)]
pub struct StatusEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    status: Status,
    phase: Phase,
    tip: Option<&'a str>,
    #[schema(value_type = Object)]
    params: ShortMap<'a>,
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a Approval>,
    /// The time of a change between the start and the end of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Failure>)]
    error: Option<ShortFailure<'a>>,
    #[schema(value_type = Object)]
    metadata: ShortMap<'a>,
    started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

/// Data of `progress`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ProgressEvent)]
pub struct ProgressEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    #[schema(value_type = Vec<Object>)]
    content: ShortContent<'a>,
    #[schema(value_type = Object)]
    details: ShortMap<'a>,
    at: Time,
}

/// Data of `tool_result`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolResultEvent)]
pub struct ToolResultEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    #[serde(flatten)]
    result: ResultData<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Failure>)]
    error: Option<ShortFailure<'a>>,
}

/// Data of `hook_error`: a hook failed or timed out.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = HookErrorEvent)]
pub struct HookErrorEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    #[serde(flatten)]
    fault: &'a HookFault,
    at: Time,
}

/// The outcome in an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = EventResult)]
pub struct ResultData<'a> {
    output: &'a str,
    #[schema(value_type = Vec<Object>)]
    content: ShortContent<'a>,
    #[schema(value_type = Object)]
    details: Details<'a>,
    is_error: bool,
    /// The URL of the full output, if it was truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_url: Option<String>,
}

static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

fn subject(call: &Call, seq: u32) -> Subject<'_> {
    Subject {
        id: call.id,
        call_id: &call.call_id,
        name: &call.name,
        session: call.session.as_deref(),
        batch_id: call.batch_id,
        seq,
    }
}

fn result<'a>(call: &'a Call, outcome: &'a Outcome) -> ResultData<'a> {
    ResultData {
        output: cut::text(&outcome.output),
        content: ShortContent { call: Some(call.id), blocks: &outcome.content },
        details: Details { call, outcome, is_short: true },
        is_error: outcome.is_error(),
        output_url: cut::is_long(&outcome.output).then(|| format!("/tool-calls/{}/output", call.id)),
    }
}

/// Builds a `status` from before the first report of the tool.
fn early_status(call: &Call, seq: u32, status: Status, phase: Phase) -> StatusEvent<'_> {
    StatusEvent {
        subject: subject(call, seq),
        status,
        phase,
        tip: None,
        params: ShortMap(&NOTHING),
        progress: None,
        approval: None,
        at: None,
        result: None,
        error: None,
        metadata: ShortMap(&NOTHING),
        started_at: call.announced_start().filter(|_| status == Status::Doing),
        ended_at: None,
        duration_ms: None,
    }
}

/// Builds a `status` with the current state.
fn whole_status(call: &Call, seq: u32) -> StatusEvent<'_> {
    let outcome = call.outcome.as_deref();
    StatusEvent {
        tip: call.tip.as_deref().map(cut::text),
        params: ShortMap(&call.params),
        progress: call.progress.as_ref(),
        approval: call.approval.as_deref(),
        result: outcome.filter(|outcome| !outcome.is_error()).map(|outcome| result(call, outcome)),
        error: outcome.and_then(|outcome| outcome.error.as_ref()).map(ShortFailure),
        metadata: ShortMap(&call.metadata),
        started_at: call.started_at,
        ended_at: call.ended_at,
        duration_ms: call.duration_ms(),
        ..early_status(call, seq, call.status, call.phase)
    }
}

/// Renders the `status` after a change of streamed arguments or of a running tool.
#[must_use]
pub fn status_update(call: &Call, at: Time) -> String {
    json(&StatusEvent { at: Some(at), ..whole_status(call, call.last_seq) })
}

/// Renders the `progress` for an emission of a running tool.
#[must_use]
pub fn emission(call: &Call, emission: &Emission, at: Time) -> String {
    json(&ProgressEvent {
        subject: subject(call, call.last_seq),
        content: ShortContent { call: None, blocks: &emission.content },
        details: ShortMap(&emission.details),
        at,
    })
}

/// Renders the `hook_error` for a failed hook.
#[must_use]
pub fn hook_error(call: &Call, fault: &HookFault, at: Time) -> String {
    json(&HookErrorEvent { subject: subject(call, call.last_seq), fault, at })
}

/// Renders the data of an event as one line of JSON.
#[must_use]
pub fn data(event: &Event) -> String {
    let (call, seq) = (&*event.call, event.seq);
    match &event.stage {
        Stage::Accepted => {
            let arguments = if call.streamed { &Value::Null } else { &*call.arguments };
            json(&ToolCallEvent {
                subject: subject(call, seq),
                title: &call.title,
                arguments: ShortValue(arguments),
                at: call.created_at,
                url: cut::has_long_text(arguments).then(|| format!("/tool-calls/{}", call.id)),
            })
        }
        Stage::Waiting => {
            let phase = if call.streamed { Phase::Arguments } else { Phase::Queued };
            json(&early_status(call, seq, Status::Wait, phase))
        }
        Stage::Started => {
            // The params shown while the arguments were streamed stay.
            let shown = call.arguments.as_object().filter(|_| call.streamed).unwrap_or(&NOTHING);
            let started = early_status(call, seq, Status::Doing, Phase::Running);
            json(&StatusEvent { params: ShortMap(shown), approval: call.approval.as_deref(), ..started })
        }
        Stage::Reported(reported) => reported.data.clone(),
        Stage::Settled => json(&whole_status(call, seq)),
        Stage::Result => call.outcome.as_deref().map_or_else(String::new, |outcome| {
            json(&ToolResultEvent {
                subject: subject(call, seq),
                result: result(call, outcome),
                error: outcome.error.as_ref().map(ShortFailure),
            })
        }),
    }
}

fn json(data: &impl Serialize) -> String {
    // Serialization cannot fail, because all keys are strings and all numbers came from JSON.
    serde_json::to_string(data).unwrap_or_default()
}
