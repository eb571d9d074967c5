//! `/sessions/{id}`: a session with its tools, calls and results.

use std::sync::Arc;

use axum::extract::Path;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::Access;
use crate::domain::call::{Phase, Progress};
use crate::domain::{Call, ContentBlock, Failure, JsonText, Session, Status, Time};
use crate::formats::session_prompt::Counts;
use crate::http::responses::{InvalidQuery, Unavailable, UnknownSession};
use crate::http::{Api, HttpResult, NoContent, Params, Problem, extract, reply};
use crate::registry::ToolRecord;
use crate::registry::listed::ListedTool;

/// Default and maximum number of calls shown.
const DEFAULT_CALLS: u32 = 200;
const MAX_CALLS: u32 = 1000;
/// Number of calls read at a time.
const PAGE: u32 = 200;
/// Maximum size of the calls read for one response, in bytes.
const BUDGET: usize = 64 << 20;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ReadParams {
    /// Maximum number of calls. The newest are shown.
    #[param(minimum = 1, maximum = 1000, default = 200)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page: shows the calls before it.
    cursor: Option<Uuid>,
}

/// A session with its tools, calls and results. Match calls and results by `call_id`; by `id` if a model has reused
/// one.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionDetail)]
struct Detail<'a> {
    #[serde(flatten)]
    session: &'a Session,
    /// The tools of the session.
    tool_definitions: Vec<ListedTool>,
    /// The calls of the session, oldest first.
    tool_calls: Vec<CallSummary<'a>>,
    /// The results of the calls that have ended.
    tool_results: Vec<ResultSummary<'a>>,
    /// The calls that have not ended.
    pending: Vec<Pending<'a>>,
    /// The number of shown calls by status.
    counts: Counts,
    /// The cursor for the calls before these; `null` if no earlier calls exist.
    next_cursor: Option<Uuid>,
}

/// A call as submitted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionToolCall)]
struct CallSummary<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    title: &'a str,
    batch_id: Option<Uuid>,
    index: u32,
    status: Status,
    /// The arguments as submitted.
    #[schema(value_type = Value)]
    arguments: &'a JsonText,
    created_at: Time,
}

impl<'a> From<&'a Call> for CallSummary<'a> {
    fn from(call: &'a Call) -> Self {
        Self {
            id: call.id,
            call_id: &call.call_id,
            name: &call.name,
            title: &call.title,
            batch_id: call.batch_id,
            index: call.index,
            status: call.status,
            arguments: &call.arguments_text,
            created_at: call.created_at,
        }
    }
}

/// The result of a call.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionToolResult)]
struct ResultSummary<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    status: Status,
    /// The text for the model.
    output: &'a str,
    /// The result as typed blocks, as shown to the model.
    #[schema(value_type = Vec<Object>)]
    content: &'a [ContentBlock],
    is_error: bool,
    error: Option<&'a Failure>,
    duration_ms: Option<u64>,
    ended_at: Option<Time>,
}

impl<'a> ResultSummary<'a> {
    /// Returns the result of a call, or `None` if it has none yet.
    fn of(call: &'a Call) -> Option<Self> {
        let outcome = call.outcome.as_deref()?;
        Some(Self {
            id: call.id,
            call_id: &call.call_id,
            name: &call.name,
            status: call.status,
            output: &outcome.output,
            content: &outcome.content,
            is_error: outcome.is_error(),
            error: outcome.error.as_ref(),
            duration_ms: call.duration_ms(),
            ended_at: call.ended_at,
        })
    }
}

/// A call that has not ended.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionPendingCall)]
struct Pending<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    status: Status,
    phase: Phase,
    tip: Option<&'a str>,
    progress: Option<&'a Progress>,
    created_at: Time,
    started_at: Option<Time>,
}

impl<'a> From<&'a Call> for Pending<'a> {
    fn from(call: &'a Call) -> Self {
        Self {
            id: call.id,
            call_id: &call.call_id,
            name: &call.name,
            status: call.status,
            phase: call.phase,
            tip: call.tip.as_deref(),
            progress: call.progress.as_ref(),
            created_at: call.created_at,
            started_at: call.started_at,
        }
    }
}

/// Reads a session: its state, tools, calls, results and pending calls.
#[utoipa::path(get, path = "/sessions/{id}", operation_id = "read_session", tag = "sessions",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = String, Path, example = "chat-1", description = "The session"), ReadParams),
    responses((status = 200, description = "The session", body = Detail), UnknownSession, InvalidQuery, Unavailable))]
pub(in crate::http) async fn read(
    Api { state, access }: Api,
    Path(id): Path<String>,
    Params(params): Params<ReadParams>,
) -> HttpResult {
    let limit = extract::limit(params.limit, DEFAULT_CALLS, MAX_CALLS)?;
    let session = extract::find_session(&access, &id).await?;
    let (calls, next_cursor) = calls_of(&access, &session, params.cursor, limit as usize).await?;
    let snapshot = access.snapshot().clone();
    let (tools, pauses): (Vec<Arc<ToolRecord>>, _) =
        (access.view(&snapshot, Some(&session)).list(), state.engine.pauses());
    let detail = Detail {
        session: &session,
        tool_definitions: tools.iter().map(|entry| entry.view(pauses.of(access.tenant(), &entry.name), true)).collect(),
        tool_calls: calls.iter().map(CallSummary::from).collect(),
        tool_results: calls.iter().filter_map(ResultSummary::of).collect(),
        pending: calls.iter().filter(|call| !call.status.is_terminal()).map(Pending::from).collect(),
        counts: Counts::of(&calls),
        next_cursor,
    };
    Ok(reply::ok(&detail))
}

/// Returns the newest calls of a session that the caller may see, in order, and the cursor for older calls, if any.
pub(super) async fn calls_of(
    access: &Access,
    session: &Session,
    mut before: Option<Uuid>,
    max: usize,
) -> HttpResult<(Vec<Call>, Option<Uuid>)> {
    let (mut calls, mut bytes) = (Vec::new(), 0);
    let next = 'pages: loop {
        let page = access.store().session_calls(session, before, PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        for call in page {
            if calls.len() == max || bytes > BUDGET {
                break 'pages before;
            }
            bytes += size_of(&call);
            before = Some(call.id);
            if access.caller().may_have(&call.name) {
                calls.push(call);
            }
        }
        if is_last {
            break None;
        }
    };
    calls.reverse();
    Ok((calls, next))
}

fn size_of(call: &Call) -> usize {
    let outcome = call.outcome.as_deref().map_or(0, |outcome| {
        let blocks = outcome.content.iter().map(|block| match block {
            ContentBlock::Image { data, .. } => data.len(),
            ContentBlock::Text(text) => text.len(),
            ContentBlock::Other(other) => serde_json::to_string(other).map_or(0, |text| text.len()),
        });
        outcome.output.len() + blocks.sum::<usize>()
    });
    call.arguments_text.get().len() + outcome
}

/// Aborts and deletes a session. Its calls remain in the list of all calls.
#[utoipa::path(delete, path = "/sessions/{id}", operation_id = "delete_session", tag = "sessions",
    security(("api_key" = ["call"])),
    params(("id" = String, Path, example = "chat-1", description = "The session")),
    responses((status = 204, description = "The session is deleted, and its running calls are cancelled"),
        (status = 403, description = "`FORBIDDEN`: this would end a call of a tool that the key may not use. \
            `SCOPE_MISSING`: the key lacks the required scope"), UnknownSession, Unavailable))]
pub(in crate::http) async fn delete(Api { state, access }: Api, Path(id): Path<String>) -> HttpResult<NoContent> {
    let session = extract::find_session(&access, &id).await?;
    super::may_end(&state, &access, &session).await?;
    match state.engine.sessions().delete(access.store(), &session).await? {
        true => Ok(NoContent),
        // Another request deleted it first.
        false => Err(Problem::unknown("session", &id)),
    }
}
