//! Extractors for JSON bodies, queries and ids. Memory limits apply, and invalid input becomes a [`Problem`].

use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::{AppState, HttpResult, Problem};
use crate::access::Access;
use crate::domain::cursor::{Cursor, InvalidCursor};
use crate::domain::{Call, Session, decode, json, tool};
use crate::memory::{Footprint, MemoryBudget, MemoryExhausted, Unread};

/// The memory estimate for a definition whose values are not counted, as a multiple of its size in bytes.
const VALUES_PER_BYTE: usize = 16;
/// Maximum number of warnings about one definition.
const MAX_WARNINGS: usize = 100;

/// A JSON body as a value. Its memory counts against the budget while it exists.
#[derive(Debug)]
pub(super) struct JsonBody {
    pub value: Value,
    _footprint: Footprint,
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> HttpResult<Self> {
        let (_, value, footprint) = json(request, state, state.engine.other_memory()).await?;
        Ok(Self { value, _footprint: footprint })
    }
}

/// Reads a JSON body. Returns it with the headers of the request and the memory footprint of the body.
pub(super) async fn json(
    request: Request,
    state: &AppState,
    budget: &MemoryBudget,
) -> HttpResult<(HeaderMap, Value, Footprint)> {
    let (Parts { headers, .. }, body) = request.into_parts();
    check_content_type(&headers)?;
    let (bytes, mut footprint) = read(&headers, body, state, budget).await?;
    let value = footprint.parse(budget, &bytes).map_err(unread)?;
    Ok((headers, value, footprint))
}

/// Reads an optional JSON body, like [`json`]. An empty body is an empty object.
pub(super) async fn json_or_empty(
    request: Request,
    state: &AppState,
    budget: &MemoryBudget,
) -> HttpResult<(HeaderMap, Value, Footprint)> {
    let (Parts { headers, .. }, body) = request.into_parts();
    let (bytes, mut footprint) = read(&headers, body, state, budget).await?;
    if bytes.is_empty() {
        return Ok((headers, Value::Object(serde_json::Map::new()), footprint));
    }
    check_content_type(&headers)?;
    let value = footprint.parse(budget, &bytes).map_err(unread)?;
    Ok((headers, value, footprint))
}

/// Converts the reason why a body was not read to a problem.
pub(super) fn unread(unread: Unread) -> Problem {
    match unread {
        Unread::Json(error) => Problem::bad_json(error.to_string()),
        Unread::MemoryExhausted(why) => memory_problem(why),
    }
}

/// Returns the problem for an exceeded memory budget. A body that can never fit gets a different one.
pub(super) fn memory_problem(why: MemoryExhausted) -> Problem {
    if why.ever {
        Problem::too_large("the decoded request body exceeds the memory available for all requests together")
    } else {
        memory_exhausted()
    }
}

fn memory_exhausted() -> Problem {
    Problem::overloaded("the memory for request bodies is exhausted; nothing was accepted, retry later")
}

impl JsonBody {
    /// Decodes the value, which must be an object, and leaves `null` in its place.
    pub fn read<T: DeserializeOwned>(&mut self) -> HttpResult<T> {
        decode::expect_objects(&self.value, &[""])?;
        Ok(decode::read(self.value.take())?)
    }
}

/// A tool definition as a value, with warnings about the schema keywords that were replaced to parse it.
#[derive(Debug)]
pub(super) struct DefinitionBody {
    pub value: Value,
    pub warnings: Vec<String>,
    _footprint: Footprint,
}

impl FromRequest<AppState> for DefinitionBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> HttpResult<Self> {
        let (Parts { headers, .. }, body) = request.into_parts();
        check_content_type(&headers)?;
        let budget = state.engine.other_memory();
        let (bytes, mut footprint) = read(&headers, body, state, budget).await?;
        let (value, replaced) = match footprint.parse(budget, &bytes) {
            Ok(value) => (value, Vec::new()),
            Err(Unread::Json(_)) => {
                // The body is parsed again with the bounds of its schemas replaced. This parser does not count values,
                // so the worst case is assumed.
                footprint.take(budget, bytes.len().saturating_mul(VALUES_PER_BYTE)).map_err(memory_problem)?;
                tool::parse_definition(&bytes, |_| 0).map_err(|error| Problem::bad_json(error.to_string()))?
            }
            Err(other) => return Err(unread(other)),
        };
        let warnings = replaced.iter().map(ToString::to_string).take(MAX_WARNINGS).collect();
        Ok(Self { value, warnings, _footprint: footprint })
    }
}

pub(super) fn check_content_type(headers: &HeaderMap) -> HttpResult<()> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.len() > 5
            && media_type.is_ascii()
            && media_type[media_type.len() - 5..].eq_ignore_ascii_case("+json");
    if is_json { Ok(()) } else { Err(Problem::not_json(media_type)) }
}

/// Rejects a body that is compressed or otherwise encoded (RFC 9110, section 8.4).
pub(super) fn check_content_encoding(headers: &HeaderMap) -> HttpResult<()> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let codings = value.to_str().unwrap_or("?").split(',').map(str::trim);
        let mut others = codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        if let Some(coding) = others.next() {
            let coding = json::shorten(coding, 64);
            let detail = format!("the Content-Encoding {coding} is not supported; send the body unencoded");
            return Err(Problem::unsupported(detail).with(header::ACCEPT_ENCODING, "identity"));
        }
    }
    Ok(())
}

/// Reads a body of at most `server.max_body_bytes`, which a layer limits, with its memory footprint.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    state: &AppState,
    budget: &MemoryBudget,
) -> HttpResult<(Bytes, Footprint)> {
    read_up_to(state.config.server.max_body_bytes, headers, body, state, budget).await
}

/// Reads a body that a [layer](super::layers::body_limit) limits to `limit` bytes, with its memory footprint.
pub(super) async fn read_up_to(
    limit: usize,
    headers: &HeaderMap,
    body: Body,
    state: &AppState,
    budget: &MemoryBudget,
) -> HttpResult<(Bytes, Footprint)> {
    check_content_encoding(headers)?;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let broken = |error: axum::Error| match error.into_inner().is::<LengthLimitError>() {
        true => Problem::body_too_large(limit),
        false => Problem::bad_json("the request body ended early"),
    };
    let timeout = Duration::from_millis(state.config.server.body_timeout_ms);
    tokio::select! {
        biased;
        received = collect(body, declared, budget, broken) => received,
        // The timer is created lazily, because most bodies have already been received.
        () = async { tokio::time::sleep(timeout).await } => Err(Problem::timeout("body", timeout)),
    }
}

/// Collects a body. A body in a single frame is neither copied nor counted; the caller counts it.
async fn collect(
    mut body: Body,
    declared: Option<usize>,
    budget: &MemoryBudget,
    broken: impl Fn(axum::Error) -> Problem,
) -> HttpResult<(Bytes, Footprint)> {
    let full = |_| memory_exhausted();
    let mut footprint = Footprint::default();
    let Some(frame) = body.frame().await else { return Ok((Bytes::new(), footprint)) };
    let first = frame.map_err(&broken)?.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok((first, footprint));
    }
    // Frames are copied into one buffer, because a small frame can hold much more memory than its data.
    let mut all = Vec::new();
    let mut next = first;
    loop {
        let length = all.len() + next.len();
        if length > all.capacity() {
            let capacity = declared.unwrap_or(0).max(length * 2);
            // Reserved memory that was not written yet uses no physical memory, so a declared length is counted as it
            // arrives.
            footprint.arrive(budget, if declared.is_some() { length } else { capacity }).map_err(full)?;
            all.reserve_exact(capacity - all.len());
        } else if declared.is_some() {
            footprint.arrive(budget, length).map_err(full)?;
        }
        all.extend_from_slice(&next);
        drop(next);
        next = loop {
            let Some(frame) = body.frame().await else { return Ok((all.into(), footprint)) };
            if let Ok(data) = frame.map_err(&broken)?.into_data() {
                break data;
            }
        };
    }
}

/// The parameters of a query. Unknown parameters are rejected.
#[derive(Debug)]
pub(super) struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> HttpResult<Self> {
        let parsed: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        parsed.map(|Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            Problem::query(reason)
        })
    }
}

/// Returns the `limit` of a query, which must be from 1 to `max`.
pub(super) fn limit<N: PartialOrd + Display + From<u8>>(given: Option<N>, default: N, max: N) -> HttpResult<N> {
    let limit = given.unwrap_or(default);
    if limit < N::from(1) || limit > max {
        return Err(Problem::query(format!("limit must be 1 to {max}")));
    }
    Ok(limit)
}

/// Adds the name in the path to a definition that has none.
pub(super) fn with_name(mut definition: Value, name: &str) -> Value {
    if let Value::Object(members) = &mut definition {
        members.entry("name").or_insert_with(|| name.into());
    }
    definition
}

/// Checks that a definition has the name in the path.
pub(super) fn expect_name(given: &str, name: &str) -> HttpResult<()> {
    if given != name {
        let message = format!("must be \"{}\" as in the path, or omitted", json::shorten(name, 128));
        return Err(Problem::field("/name", message));
    }
    Ok(())
}

/// Parses the id of a call in a path. An invalid UUID gets the same 404 as an unknown call.
pub(super) fn call_id(text: &str) -> HttpResult<Uuid> {
    text.parse().map_err(|_| no_such_call(text))
}

/// Returns the 404 for an unknown call.
pub(super) fn no_such_call(id: &str) -> Problem {
    Problem::not_found(format!("unknown call {}", json::shorten(id, 64)))
}

/// Returns a call that the caller may reach.
pub(super) async fn find_call(access: &Access, id: Uuid) -> HttpResult<Call> {
    access.call(id).await?.ok_or_else(|| no_such_call(&id.to_string()))
}

/// Returns a session of the caller's tenant.
pub(super) async fn find_session(access: &Access, id: &str) -> HttpResult<Session> {
    // PostgreSQL rejects U+0000, and no session id contains it.
    let found = if id.contains('\0') { None } else { access.store().session(id).await? };
    found.ok_or_else(|| Problem::unknown("session", id))
}

/// Checks that the caller may reach a call. Without an allow-list, the operation that follows finds out.
pub(super) async fn check_reach(access: &Access, id: Uuid) -> HttpResult<()> {
    if access.may_reach_id(id).await? { Ok(()) } else { Err(no_such_call(&id.to_string())) }
}

/// Returns the place after which a stream resumes: `Last-Event-ID`, else `?after=`.
pub(super) fn resume_from(headers: &HeaderMap, after: Option<&str>) -> HttpResult<Option<Cursor>> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let given = last.filter(|text| !text.is_empty()).or(after).filter(|text| !text.is_empty());
    let Some(text) = given else { return Ok(None) };
    text.parse().map(Some).map_err(|InvalidCursor| {
        let message = format!("\"{}\" is not a valid event id; use the `id:` of an event", json::shorten(text, 64));
        Problem::field("", message)
    })
}

/// Returns `true` for an event id or an empty string.
pub(super) fn is_event_id(text: &str) -> bool {
    text.is_empty() || text.parse::<Cursor>().is_ok()
}
