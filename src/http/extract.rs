//! Extractors for JSON bodies, queries and ids. Memory limits apply, and invalid input becomes a [`Problem`].

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::AppState;
use super::problem::Problem;
use crate::domain::{decode, json, tool};
use crate::engine::{Footprint, MemoryBudget, NoRoom, Unread};

/// The memory estimate for a definition whose values are not counted, as a multiple of its size in bytes.
const VALUES_PER_BYTE: usize = 16;
/// Maximum number of warnings about one definition.
const MAX_WARNINGS: usize = 100;

/// Maximum number of digits of an event id.
const MAX_EVENT_ID_DIGITS: usize = 18;

/// A JSON body as a value. Its memory counts against the budget while it exists.
#[derive(Debug)]
pub(super) struct JsonBody {
    pub value: Value,
    _footprint: Footprint,
}

/// The headers and JSON body of a request for calls, with the memory footprint of the body.
#[derive(Debug)]
pub(super) struct JsonRequest {
    pub headers: HeaderMap,
    pub value: Value,
    pub footprint: Footprint,
}

impl FromRequest<AppState> for JsonRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        let (value, footprint) = json_of(&headers, body, state, state.engine.room()).await?;
        Ok(Self { headers, value, footprint })
    }
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        let (value, footprint) = json_of(&headers, body, state, state.engine.room_of_others()).await?;
        Ok(Self { value, _footprint: footprint })
    }
}

async fn json_of(
    headers: &HeaderMap,
    body: Body,
    state: &AppState,
    room: &MemoryBudget,
) -> Result<(Value, Footprint), Problem> {
    check_content_type(headers)?;
    let (bytes, mut footprint) = read(headers, body, state, room).await?;
    let value = footprint.parse(room, &bytes).map_err(unread)?;
    Ok((value, footprint))
}

/// Converts the reason why a body was not read to a problem.
pub(super) fn unread(unread: Unread) -> Problem {
    match unread {
        Unread::Json(error) => Problem::bad_json(error.to_string()),
        Unread::NoRoom(why) => no_room(why),
    }
}

/// Returns the problem for an exceeded memory budget. A body that can never fit gets a different one.
pub(super) fn no_room(why: NoRoom) -> Problem {
    if why.ever { Problem::too_heavy() } else { Problem::no_room() }
}

impl JsonBody {
    /// Decodes the value, which must be an object, and leaves `null` in its place.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
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

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        check_content_type(&headers)?;
        let room = state.engine.room_of_others();
        let (bytes, mut footprint) = read(&headers, body, state, room).await?;
        let (value, replaced) = match footprint.parse(room, &bytes) {
            Ok(value) => (value, Vec::new()),
            Err(Unread::Json(_)) => {
                // The body is parsed again with the bounds of its schemas replaced. This parser does not count values,
                // so the worst case is assumed.
                footprint.take(room, bytes.len().saturating_mul(VALUES_PER_BYTE)).map_err(no_room)?;
                tool::parse_definition(&bytes, |_| 0).map_err(|error| Problem::bad_json(error.to_string()))?
            }
            Err(other) => return Err(unread(other)),
        };
        let warnings = replaced.iter().map(ToString::to_string).take(MAX_WARNINGS).collect();
        Ok(Self { value, warnings, _footprint: footprint })
    }
}

pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.len() > 5
            && media_type.is_ascii()
            && media_type[media_type.len() - 5..].eq_ignore_ascii_case("+json");
    if is_json { Ok(()) } else { Err(Problem::not_json(media_type)) }
}

/// Rejects a body that is compressed or otherwise encoded (RFC 9110, section 8.4).
pub(super) fn check_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let codings = value.to_str().unwrap_or("?").split(',').map(str::trim);
        let mut others = codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        if let Some(coding) = others.next() {
            return Err(Problem::encoded(&json::shorten(coding, 64)));
        }
    }
    Ok(())
}

/// Reads a body of at most `server.max_body_bytes`, with its memory footprint.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    state: &AppState,
    room: &MemoryBudget,
) -> Result<(Bytes, Footprint), Problem> {
    read_up_to(state.config.server.max_body_bytes, headers, body, state, room).await
}

/// Reads a body of at most `limit` bytes, with its memory footprint.
pub(super) async fn read_up_to(
    limit: usize,
    headers: &HeaderMap,
    body: Body,
    state: &AppState,
    room: &MemoryBudget,
) -> Result<(Bytes, Footprint), Problem> {
    check_content_encoding(headers)?;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(Problem::too_large(limit));
    }
    let patience = state.config.server.body_timeout_ms;
    tokio::select! {
        biased;
        received = collect(Limited::new(body, limit), declared, room) => match received {
            Ok(body) => Ok(body),
            Err(ReceiveError::NoRoom) => Err(Problem::no_room()),
            Err(ReceiveError::Broken(error)) if error.is::<LengthLimitError>() => Err(Problem::too_large(limit)),
            Err(ReceiveError::Broken(_)) => Err(Problem::bad_json("the request body ended early")),
        },
        // The timer is created lazily, because most bodies have already been received.
        () = async { tokio::time::sleep(Duration::from_millis(patience)).await } => Err(Problem::body_timeout(patience)),
    }
}

/// An error while receiving a body.
enum ReceiveError {
    Broken(axum::BoxError),
    NoRoom,
}

impl From<axum::BoxError> for ReceiveError {
    fn from(error: axum::BoxError) -> Self {
        Self::Broken(error)
    }
}

impl From<NoRoom> for ReceiveError {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

/// Collects a body. A body in a single frame is neither copied nor counted; the caller counts it.
async fn collect(
    mut body: Limited<Body>,
    declared: Option<usize>,
    room: &MemoryBudget,
) -> Result<(Bytes, Footprint), ReceiveError> {
    let mut footprint = Footprint::default();
    let Some(frame) = body.frame().await else { return Ok((Bytes::new(), footprint)) };
    let first = frame?.into_data().unwrap_or_default();
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
            footprint.arrive(room, if declared.is_some() { length } else { capacity })?;
            all.reserve_exact(capacity - all.len());
        } else if declared.is_some() {
            footprint.arrive(room, length)?;
        }
        all.extend_from_slice(&next);
        drop(next);
        next = loop {
            let Some(frame) = body.frame().await else { return Ok((all.into(), footprint)) };
            if let Ok(data) = frame?.into_data() {
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

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let parsed: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        parsed.map(|Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            Problem::field("", format!("query: {reason}"))
        })
    }
}

/// Parses the id of a call in a path. An invalid UUID gets the same 404 as an unknown call.
pub(super) fn call_id(text: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| no_such_call(text))
}

/// Returns the 404 for an unknown call.
pub(super) fn no_such_call(id: &str) -> Problem {
    Problem::not_found(format!("unknown call {}", json::shorten(id, 64)))
}

/// Returns the position after which a stream resumes: `Last-Event-ID`, else `?after=`.
pub(super) fn resume_from(headers: &HeaderMap, after: Option<&str>) -> Result<Option<i64>, Problem> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let given = last.filter(|text| !text.is_empty()).or(after).filter(|text| !text.is_empty());
    let Some(text) = given else { return Ok(None) };
    let is_id = text.len() <= MAX_EVENT_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_id).map(Some).ok_or_else(|| {
        let message = format!("\"{}\" is not a valid event id; use the `id:` of an event", json::shorten(text, 64));
        Problem::field("", message)
    })
}
