//! `GET /tool-calls…`: what happened.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::extract::{self, Params};
use super::problem::Problem;
use super::{AppState, Shared, end, reply};
use crate::domain::{Call, ContentBlock, Status, Time};
use crate::formats::native::ToolCall;
use crate::store::calls::CallFilter;

/// Calls of a page unless asked otherwise, and at most.
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;
/// Longest wait of a long poll.
const LONGEST_WAIT_MS: u64 = 300_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Of this session.
    session: Option<String>,
    /// Of this batch.
    batch_id: Option<Uuid>,
    /// Of this tool.
    name: Option<String>,
    /// In this status.
    status: Option<Status>,
    /// Accepted at or after this time (RFC 3339).
    since: Option<Time>,
    /// Accepted before this time (RFC 3339).
    until: Option<Time>,
    /// Most calls of a page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// A page of calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCallPage)]
struct Page<'a> {
    /// Newest first.
    tool_calls: Vec<ToolCall<'a>>,
    /// For the next page; `null` at the end.
    next_cursor: Option<Uuid>,
}

/// Lists calls, newest first.
#[utoipa::path(get, path = "/tool-calls", operation_id = "list_tool_calls", tag = "tool calls", params(PageParams),
    responses((status = 200, description = "A page", body = Page),
        (status = 422, description = "A query parameter is wrong"),
        (status = 503, description = "The database is away")))]
pub(super) async fn page(
    State(state): State<AppState>,
    Params(params): Params<PageParams>,
) -> Result<Response, Problem> {
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("", format!("query: limit must be 1 to {LARGEST_PAGE}")));
    }
    if params.session.as_deref().is_some_and(|session| session.contains('\0')) {
        return Err(Problem::field("", "query: no session has U+0000 in its id"));
    }
    let filter = CallFilter {
        session: params.session,
        batch_id: params.batch_id,
        name: params.name,
        status: params.status,
        since: params.since,
        until: params.until,
        before: params.cursor,
        // One more tells whether there is another page.
        limit: limit + 1,
    };
    let mut calls = state.store.calls(&filter).await?;
    let more = calls.len() > limit as usize;
    calls.truncate(limit as usize);
    let next_cursor = calls.last().filter(|_| more).map(|call| call.id);
    let tool_calls = calls.iter().map(ToolCall::from).collect();
    Ok(reply::json(StatusCode::OK, &Page { tool_calls, next_cursor }))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Answer only when the call has ended, or after so many milliseconds.
    #[param(maximum = 300_000)]
    wait_ms: Option<u64>,
}

/// Reads a call; with `wait_ms` it waits for its end.
#[utoipa::path(get, path = "/tool-calls/{id}", operation_id = "read_tool_call", tag = "tool calls", params(("id" = Uuid, Path, description = "The service's id of the call"), WaitParams),
    responses((status = 200, description = "The call as it is", body = ToolCall),
        (status = 404, description = "There is no such call"),
        (status = 422, description = "A query parameter is wrong"),
        (status = 503, description = "The database is away")))]
pub(super) async fn one(
    State(state): State<AppState>,
    Path(id): Path<String>,
    Params(params): Params<WaitParams>,
) -> Result<Response, Problem> {
    let id = extract::call_id(&id)?;
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0).min(LONGEST_WAIT_MS));
    let call = end::wait(&state, id, Some(wait)).await?;
    Ok(reply::json(StatusCode::OK, &ToolCall::from(&call)))
}

/// The whole output as text.
#[utoipa::path(get, path = "/tool-calls/{id}/output", operation_id = "read_output", tag = "tool calls", params(("id" = Uuid, Path, description = "The service's id of the call")),
    responses((status = 200, description = "The output", body = String, content_type = "text/plain"),
        (status = 404, description = "There is no such call, or it has not ended"),
        (status = 503, description = "The database is away")))]
pub(super) async fn output(State(state): State<AppState>, Path(id): Path<String>) -> Result<Response, Problem> {
    let call = find(&state, extract::call_id(&id)?).await?;
    let Some(outcome) = &call.outcome else { return Err(Problem::not_found("the call has not ended")) };
    Ok(inert("text/plain; charset=utf-8", outcome.output.clone().into_bytes()))
}

/// One content block as its own media type.
#[utoipa::path(get, path = "/tool-calls/{id}/content/{n}", operation_id = "read_content_block", tag = "tool calls",
    params(("id" = Uuid, Path, description = "The service's id of the call"), ("n" = u32, Path, description = "The block, counted from 0")),
    responses((status = 200, description = "The block", body = String, content_type = "*/*"),
        (status = 404, description = "There is no such call or block"),
        (status = 503, description = "The database is away")))]
pub(super) async fn content(
    State(state): State<AppState>,
    Path((id, n)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let call = find(&state, extract::call_id(&id)?).await?;
    let number = n.parse::<usize>().ok();
    let block = call.outcome.as_ref().zip(number).and_then(|(outcome, number)| outcome.content.get(number));
    match block {
        None => {
            Err(Problem::not_found(format!("the call has no content block {}", crate::domain::json::shorten(&n, 20))))
        }
        Some(ContentBlock::Text(text)) => Ok(inert("text/plain; charset=utf-8", text.clone().into_bytes())),
        Some(ContentBlock::Image { data, mime_type }) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).map_err(|_| Problem::internal())?;
            Ok(inert(mime_type, bytes))
        }
        Some(other @ ContentBlock::Other(_)) => Ok(reply::json(StatusCode::OK, other)),
    }
}

/// What a tool made, so that a browser does nothing with it but show it.
fn inert(media_type: &str, bytes: Vec<u8>) -> Response {
    let fallback = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(media_type).unwrap_or(fallback);
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    (headers, bytes).into_response()
}

async fn find(state: &Shared, id: Uuid) -> Result<Call, Problem> {
    state.store.call(id).await?.ok_or_else(|| extract::no_such_call(&id.to_string()))
}
