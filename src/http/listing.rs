//! `GET /tool-calls…`: lists calls and returns their results.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::responses::{InvalidQuery, Unavailable, UnknownCall};
use super::{Api, HttpResult, Params, Problem, extract, range, reply, wait};
use crate::access::Access;
use crate::domain::schemas::Bytes;
use crate::domain::{Call, Code, ContentBlock, Phase, Status, Time};
use crate::formats::native::ToolCall;
use crate::store::calls::CallFilter;
use crate::store::history::{HistoryFilter, HistoryPage, words};

/// Default number of calls per page.
const PAGE: u32 = 50;
/// Maximum number of calls per page.
const MAX_PAGE: u32 = 500;
/// The largest integer that every JSON parser keeps exact (RFC 8259, section 6).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Maximum number of words and of characters of a search.
const MAX_QUERY_WORDS: usize = 16;
const MAX_QUERY_CHARS: usize = 1000;
/// Maximum duration of a long poll, in milliseconds.
const MAX_WAIT_MS: u64 = 300_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Only calls of this session.
    #[param(pattern = "^[^\\u0000]*$")]
    session: Option<String>,
    /// Only calls of this batch.
    batch_id: Option<Uuid>,
    /// Only calls of this tool.
    name: Option<String>,
    /// Only calls in this status.
    status: Option<Status>,
    /// Only calls that failed with this code.
    code: Option<Code>,
    /// Only calls in this phase.
    phase: Option<Phase>,
    /// Only calls that this call made.
    parent: Option<Uuid>,
    /// Only calls accepted at or after this time (RFC 3339).
    since: Option<Time>,
    /// Only calls accepted before this time (RFC 3339).
    until: Option<Time>,
    /// Only ended calls whose tool ran at least this number of milliseconds.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    min_duration_ms: Option<u64>,
    /// Only calls with all these words, at most 16, in the arguments or the output: letters and digits, in upper or lower case. An
    /// ended call is found about a second after its end, unless it has more than 256 KiB. A text without words matches
    /// no call.
    #[param(max_length = 1000)]
    q: Option<String>,
    /// Maximum number of calls per page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

/// A page of calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolCallPage)]
struct Page<'a> {
    /// The calls, newest first.
    tool_calls: Vec<ToolCall<'a>>,
    /// The cursor of the next page; `null` on the last page.
    next_cursor: Option<Uuid>,
}

/// Lists calls, newest first.
///
/// All filters can be combined. A page can have fewer calls than `limit`, or none, although more follow: if the calls are
/// large, if the key may see the calls of some tools only, or if few of many calls match several filters. Continue until
/// `next_cursor` is `null`.
#[utoipa::path(get, path = "/tool-calls", operation_id = "list_tool_calls", tag = "tool calls", params(PageParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page", body = Page), InvalidQuery, Unavailable))]
pub(super) async fn page(access: Access, Params(params): Params<PageParams>) -> HttpResult {
    let limit = extract::limit(params.limit, PAGE, MAX_PAGE)?;
    if params.session.as_deref().is_some_and(|session| session.contains('\0')) {
        return Err(Problem::query("session must not contain U+0000"));
    }
    let words = params.q.as_deref().map(words_of).transpose()?;
    if words.as_ref().is_some_and(Vec::is_empty) {
        return Ok(reply::ok(&Page { tool_calls: Vec::new(), next_cursor: None }));
    }
    if params.min_duration_ms.is_some_and(|least| least > MAX_SAFE_INTEGER) {
        return Err(Problem::query(format!("min_duration_ms must be at most {MAX_SAFE_INTEGER}")));
    }
    let calls = CallFilter {
        session: params.session,
        batch_id: params.batch_id,
        name: params.name,
        status: params.status,
        since: params.since,
        until: params.until,
        before: params.cursor,
        limit,
    };
    let PageParams { code, phase, parent, min_duration_ms, .. } = params;
    let filter = HistoryFilter { calls, code, phase, parent, min_duration_ms, words: words.unwrap_or_default() };
    let allowed = access.allowed();
    if filter.calls.name.as_deref().is_some_and(|name| allowed.is_some_and(|allowed| !allowed.has(name))) {
        return Ok(reply::ok(&Page { tool_calls: Vec::new(), next_cursor: None }));
    }
    let HistoryPage { mut calls, next: next_cursor } = access.store().history(&filter, allowed).await?;
    access.store().show_approvals(&mut calls).await?;
    let tool_calls = calls.iter().map(ToolCall::from).collect();
    Ok(reply::ok(&Page { tool_calls, next_cursor }))
}

/// Returns the words of a search.
fn words_of(text: &str) -> HttpResult<Vec<String>> {
    let words = words::of_query(text);
    if words.len() > MAX_QUERY_WORDS || text.chars().count() > MAX_QUERY_CHARS {
        let message = format!("q must have at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARS} characters");
        return Err(Problem::query(message));
    }
    Ok(words)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Wait until the call has ended, but at most this number of milliseconds.
    #[param(maximum = 300_000)]
    wait_ms: Option<u64>,
}

/// Returns a call. With `wait_ms`, waits for it to end.
#[utoipa::path(get, path = "/tool-calls/{id}", operation_id = "read_tool_call", tag = "tool calls", params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), WaitParams),
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    responses((status = 200, description = "The call in its current status", body = ToolCall),
        UnknownCall, InvalidQuery, Unavailable))]
pub(super) async fn one(
    Api { state, access }: Api,
    Path(id): Path<String>,
    Params(params): Params<WaitParams>,
) -> HttpResult {
    let wait_ms = params.wait_ms.unwrap_or(0);
    if wait_ms > MAX_WAIT_MS {
        return Err(Problem::query(format!("wait_ms must be at most {MAX_WAIT_MS}")));
    }
    let (id, wait) = (extract::call_id(&id)?, Duration::from_millis(wait_ms));
    let mut call = wait::wait(&state, &access, id, Some(wait)).await?;
    access.store().show_approvals(std::slice::from_mut(&mut call)).await?;
    Ok(reply::pieces(StatusCode::OK, ToolCall::from(&call).to_json(), call.counted.clone()))
}

/// Returns the full output as text, even if `output` was truncated for the model. `Range` selects a part.
#[utoipa::path(get, path = "/tool-calls/{id}/output", operation_id = "read_output", tag = "tool calls",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"),
        ("Range" = Option<String>, Header, example = "bytes=0-65535", description = "A single byte range (RFC 9110, section 14). With several ranges, the full output is returned."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` of the previously received part. If it does not match, the full output is returned")),
    responses((status = 200, description = "The output", body = String, content_type = "text/plain",
            headers(("Accept-Ranges" = String, description = "`bytes`"), ("ETag" = String, description = "Never changes for a call"))),
        (status = 206, description = "The requested part", body = String, content_type = "text/plain",
            headers(("Content-Range" = String, description = "The range of the part and the total number of bytes"))),
        (status = 404, description = "Unknown call, or the call has not ended"),
        (status = 416, description = "The range is past the end; `Content-Range` has the total number of bytes",
            headers(("Content-Range" = String, description = "`bytes */LENGTH`"))), Unavailable))]
pub(super) async fn output(access: Access, Path(id): Path<String>, headers: HeaderMap) -> HttpResult {
    let call = extract::find_call(&access, extract::call_id(&id)?).await?;
    let Some(outcome) = &call.outcome else { return Err(Problem::not_found("the call has not ended yet")) };
    let text = outcome.whole_output().into_owned();
    range::answer(&headers, &tag(&call, None), "text/plain; charset=utf-8", text.into_bytes())
}

/// Returns one content block with its own media type. A text that was truncated for the model is complete here. `Range`
/// selects a part.
#[utoipa::path(get, path = "/tool-calls/{id}/content/{n}", operation_id = "read_content_block", tag = "tool calls",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), ("n" = u32, Path, description = "The index of the block, from 0"),
        ("Range" = Option<String>, Header, example = "bytes=0-65535", description = "A single byte range (RFC 9110, section 14). With several ranges, the full block is returned."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` of the previously received part. If it does not match, the full block is returned")),
    responses((status = 200, description = "The block, with its own `Content-Type`", content((inline(Bytes) = "application/octet-stream"), (String = "text/plain")),
            headers(("Accept-Ranges" = String, description = "`bytes`"), ("ETag" = String, description = "Never changes for a block"))),
        (status = 206, description = "The requested part, with the `Content-Type` of the block", content((inline(Bytes) = "application/octet-stream"), (String = "text/plain")),
            headers(("Content-Range" = String, description = "The range of the part and the total number of bytes"))),
        (status = 404, description = "Unknown call or block"),
        (status = 416, description = "The range is past the end; `Content-Range` has the total number of bytes",
            headers(("Content-Range" = String, description = "`bytes */LENGTH`"))), Unavailable))]
pub(super) async fn content(access: Access, Path((id, n)): Path<(String, String)>, headers: HeaderMap) -> HttpResult {
    let call = extract::find_call(&access, extract::call_id(&id)?).await?;
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
        other @ ContentBlock::Other(_) => Ok(reply::ok(other)),
    }
}

/// Returns the `ETag` of an output or block. The id suffices, because the outcome of an ended call never changes.
fn tag(call: &Call, block: Option<usize>) -> String {
    match block {
        None => format!("\"{}\"", call.id),
        Some(number) => format!("\"{}-{number}\"", call.id),
    }
}
