//! The data of each event (docs/reference/contract.md, section 6). The same call gives the same text, live or read back
//! from the store.

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::domain::call::{Call, Phase, Progress, Status};
use crate::domain::event::{Emission, Event, Stage};
use crate::domain::{Failure, HookFault, Outcome, Time};
use crate::formats::cut::{self, ShortContent, ShortFailure, ShortMap, ShortValue};
use crate::formats::details::Details;

/// What every event says about its call.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Subject<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<Uuid>,
    /// The event's number within the call, from 1 without a gap.
    seq: u32,
}

/// Data of `tool_call`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCallEvent)]
pub struct ToolCallEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    title: &'a str,
    /// As given; `null` where they come piece by piece.
    #[schema(value_type = Value)]
    arguments: ShortValue<'a>,
    at: Time,
    /// Where the whole call is, if a long text was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Data of `status`: the whole accumulated state.
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

/// Data of `hook_error`: a hook failed, or did not answer in time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = HookErrorEvent)]
pub struct HookErrorEvent<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    #[serde(flatten)]
    fault: &'a HookFault,
}

/// The outcome as an event shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = EventResult)]
pub struct ResultData<'a> {
    output: &'a str,
    #[schema(value_type = Vec<Object>)]
    content: ShortContent<'a>,
    #[schema(value_type = Object)]
    details: Details<'a>,
    is_error: bool,
    /// Where the whole output is, if it was cut.
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
        details: Details::short(call, outcome),
        is_error: outcome.is_error(),
        output_url: cut::is_long(&outcome.output).then(|| format!("/tool-calls/{}/output", call.id)),
    }
}

/// A `status` of before the tool has said anything.
fn early_status(call: &Call, seq: u32, status: Status, phase: Phase) -> StatusEvent<'_> {
    StatusEvent {
        subject: subject(call, seq),
        status,
        phase,
        tip: None,
        params: ShortMap(&NOTHING),
        progress: None,
        result: None,
        error: None,
        metadata: ShortMap(&NOTHING),
        started_at: call.announced_start().filter(|_| status == Status::Doing),
        ended_at: None,
        duration_ms: None,
    }
}

/// A `status` with all that is known now.
fn whole_status(call: &Call, seq: u32) -> StatusEvent<'_> {
    let outcome = call.outcome.as_deref();
    StatusEvent {
        tip: call.tip.as_deref().map(cut::text),
        params: ShortMap(&call.params),
        progress: call.progress.as_ref(),
        result: outcome.filter(|outcome| !outcome.is_error()).map(|outcome| result(call, outcome)),
        error: outcome.and_then(|outcome| outcome.error.as_ref()).map(ShortFailure),
        metadata: ShortMap(&call.metadata),
        started_at: call.started_at,
        ended_at: call.ended_at,
        duration_ms: call.duration_ms(),
        ..early_status(call, seq, call.status, call.phase)
    }
}

/// Data of the `status` that a change of the call makes: of its arguments while they come, and of its running tool.
#[must_use]
pub fn status_update(call: &Call) -> String {
    json(&whole_status(call, call.last_seq))
}

/// Data of the `progress` that a running tool's emission makes.
#[must_use]
pub fn emission(call: &Call, emission: &Emission) -> String {
    json(&ProgressEvent {
        subject: subject(call, call.last_seq),
        content: ShortContent { call: None, blocks: &emission.content },
        details: ShortMap(&emission.details),
    })
}

/// Data of the `hook_error` that a hook's failure makes.
#[must_use]
pub fn hook_error(call: &Call, fault: &HookFault) -> String {
    json(&HookErrorEvent { subject: subject(call, call.last_seq), fault })
}

/// The data of an event, as one line of JSON.
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
            // What was shown of them while they came stays.
            let shown = call.arguments.as_object().filter(|_| call.streamed).unwrap_or(&NOTHING);
            let started = early_status(call, seq, Status::Doing, Phase::Running);
            json(&StatusEvent { params: ShortMap(shown), ..started })
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
    // Maps with string keys and numbers that came from JSON cannot fail to serialise.
    serde_json::to_string(data).unwrap_or_default()
}
