//! `GET /tool-calls…`: what happened.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::extract::{self, Params};
use super::problem::Problem;
use super::{AppState, range, reply, wait};
use crate::access::Access;
use crate::domain::{Call, ContentBlock, Status, Time};
use crate::formats::native::ToolCall;
use crate::store::calls::CallFilter;

mod pages;

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
    #[param(pattern = "^[^\\u0000]*$")]
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
///
/// A page may have fewer calls than asked for although there are more, as where the calls are large, or where a key sees the
/// calls of some tools only: go on as long as there is a `next_cursor`.
#[utoipa::path(get, path = "/tool-calls", operation_id = "list_tool_calls", tag = "tool calls", params(PageParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page", body = Page),
        (status = 422, description = "A query parameter is invalid"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn page(access: Access, Params(params): Params<PageParams>) -> Result<Response, Problem> {
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
        limit,
    };
    let (calls, next_cursor) = pages::page(&access, filter).await?;
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
#[utoipa::path(get, path = "/tool-calls/{id}", operation_id = "read_tool_call", tag = "tool calls", params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), WaitParams),
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    responses((status = 200, description = "The call as it is", body = ToolCall),
        (status = 404, description = "Unknown call"),
        (status = 422, description = "A query parameter is invalid"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn one(
    State(state): State<AppState>,
    access: Access,
    Path(id): Path<String>,
    Params(params): Params<WaitParams>,
) -> Result<Response, Problem> {
    let wait_ms = params.wait_ms.unwrap_or(0);
    if wait_ms > LONGEST_WAIT_MS {
        return Err(Problem::field("", format!("query: wait_ms must be at most {LONGEST_WAIT_MS}")));
    }
    let (id, wait) = (extract::call_id(&id)?, Duration::from_millis(wait_ms));
    let call = wait::wait(&state, &access, id, Some(wait)).await?;
    Ok(reply::pieces(StatusCode::OK, ToolCall::from(&call).to_json(), call.counted.clone()))
}

/// The whole output as text, also where `output` was cut for the model. `Range` gives a part of it.
#[utoipa::path(get, path = "/tool-calls/{id}/output", operation_id = "read_output", tag = "tool calls",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"),
        ("Range" = Option<String>, Header, example = "bytes=0-65535", description = "One range of bytes (RFC 9110, section 14); several are answered with the whole."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` that the rest has: with another one the whole is given")),
    responses((status = 200, description = "The output", body = String, content_type = "text/plain",
            headers(("Accept-Ranges" = String, description = "`bytes`"), ("ETag" = String, description = "It never changes"))),
        (status = 206, description = "The part that was asked for", body = String, content_type = "text/plain",
            headers(("Content-Range" = String, description = "Which part of how many bytes"))),
        (status = 404, description = "Unknown call, or the call has not ended"),
        (status = 416, description = "There are not so many bytes; `Content-Range` says how many there are",
            headers(("Content-Range" = String, description = "`bytes */LENGTH`"))),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn output(access: Access, Path(id): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let call = find(&access, extract::call_id(&id)?).await?;
    let Some(outcome) = &call.outcome else { return Err(Problem::not_found("the call has not ended")) };
    let text = outcome.whole_output().into_owned();
    range::answer(&headers, &tag(&call, None), "text/plain; charset=utf-8", text.into_bytes())
}

/// One content block as its own media type; a text that was cut for the model is whole here. `Range` gives a part of it.
#[utoipa::path(get, path = "/tool-calls/{id}/content/{n}", operation_id = "read_content_block", tag = "tool calls",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), ("n" = u32, Path, description = "The block, counted from 0"),
        ("Range" = Option<String>, Header, example = "bytes=0-65535", description = "One range of bytes (RFC 9110, section 14); several are answered with the whole."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` that the rest has: with another one the whole is given")),
    responses((status = 200, description = "The block", body = String, content_type = "*/*",
            headers(("Accept-Ranges" = String, description = "`bytes`"), ("ETag" = String, description = "It never changes"))),
        (status = 206, description = "The part that was asked for", body = String, content_type = "*/*",
            headers(("Content-Range" = String, description = "Which part of how many bytes"))),
        (status = 404, description = "Unknown call or block"),
        (status = 416, description = "There are not so many bytes; `Content-Range` says how many there are",
            headers(("Content-Range" = String, description = "`bytes */LENGTH`"))),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn content(
    access: Access,
    Path((id, n)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = find(&access, extract::call_id(&id)?).await?;
    let block = n.parse::<usize>().ok().and_then(|number| {
        let outcome = call.outcome.as_deref()?;
        Some((number, outcome, outcome.content.get(number)?))
    });
    let Some((number, outcome, block)) = block else {
        let n = crate::domain::json::shorten(&n, 20);
        return Err(Problem::not_found(format!("the call has no content block {n}")));
    };
    let tag = tag(&call, Some(number));
    match block {
        ContentBlock::Text(text) => {
            let text = outcome.whole_block(number).map_or_else(|| text.clone(), Cow::into_owned);
            range::answer(&headers, &tag, "text/plain; charset=utf-8", text.into_bytes())
        }
        ContentBlock::Image { data, mime_type } => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).map_err(|_| Problem::internal())?;
            range::answer(&headers, &tag, mime_type, bytes)
        }
        other @ ContentBlock::Other(_) => Ok(reply::json(StatusCode::OK, other)),
    }
}

/// What a call that has ended has made never changes.
fn tag(call: &Call, block: Option<usize>) -> String {
    match block {
        None => format!("\"{}\"", call.id),
        Some(number) => format!("\"{}-{number}\"", call.id),
    }
}

async fn find(access: &Access, id: Uuid) -> Result<Call, Problem> {
    access.call(id).await?.ok_or_else(|| extract::no_such_call(&id.to_string()))
}
