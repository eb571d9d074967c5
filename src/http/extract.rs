//! From a request to values: JSON bodies within their bounds, queries and ids with clear refusals.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::AppState;
use super::problem::Problem;
use crate::domain::{json, shape};

/// Digits of an event's id at most.
const LONGEST_EVENT_ID: usize = 18;

/// A JSON body as a value, and how many bytes it had.
#[derive(Debug)]
pub(super) struct JsonBody {
    pub value: Value,
    pub bytes: usize,
}

/// The same with the request's headers, which are not copied for it.
#[derive(Debug)]
pub(super) struct JsonRequest {
    pub headers: HeaderMap,
    pub body: JsonBody,
}

impl FromRequest<AppState> for JsonRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        check_content_type(&headers)?;
        let bytes = read(&headers, body, state).await?;
        let value = json::parse(&bytes).map_err(|error| Problem::bad_json(error.to_string()))?;
        Ok(Self { headers, body: JsonBody { value, bytes: bytes.len() } })
    }
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        JsonRequest::from_request(request, state).await.map(|request| request.body)
    }
}

impl JsonBody {
    /// Reads the value into a shape.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        Ok(shape::read(self.value)?)
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

/// Refuses a body that is compressed or otherwise encoded (RFC 9110, section 8.4).
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

pub(super) async fn read(headers: &HeaderMap, body: Body, state: &AppState) -> Result<Bytes, Problem> {
    check_content_encoding(headers)?;
    let limit = state.config.server.max_body_bytes;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(Problem::too_large(limit));
    }
    let patience = state.config.server.body_timeout_ms;
    tokio::select! {
        biased;
        whole = whole(Limited::new(body, limit)) => match whole {
            Ok(whole) => Ok(whole),
            Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(limit)),
            Err(_) => Err(Problem::bad_json("the request body ended early")),
        },
        // Mostly the body is there already, and the clock is never made.
        () = async { tokio::time::sleep(Duration::from_millis(patience)).await } => Err(Problem::body_timeout(patience)),
    }
}

/// All of a body. Most come in one piece, which is neither gathered nor copied.
async fn whole(mut body: Limited<Body>) -> Result<Bytes, axum::BoxError> {
    let Some(frame) = body.frame().await else { return Ok(Bytes::new()) };
    let first = frame?.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let rest = Box::pin(body.collect()).await?.aggregate();
    let mut all = first.chain(rest);
    Ok(all.copy_to_bytes(all.remaining()))
}

/// A query; an unknown parameter is refused.
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

/// The id of a call in a path. What is no UUID names no call.
pub(super) fn call_id(text: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| no_such_call(text))
}

/// 404 for a call.
pub(super) fn no_such_call(id: &str) -> Problem {
    Problem::not_found(format!("there is no call {}", json::shorten(id, 64)))
}

/// Where a stream goes on: `Last-Event-ID`, else `?after=`.
pub(super) fn resume_from(headers: &HeaderMap, after: Option<&str>) -> Result<Option<i64>, Problem> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let given = last.filter(|text| !text.is_empty()).or(after).filter(|text| !text.is_empty());
    let Some(text) = given else { return Ok(None) };
    let is_id = text.len() <= LONGEST_EVENT_ID && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_id).map(Some).ok_or_else(|| {
        let message = format!("\"{}\" is no event id: take the `id:` of an event", json::shorten(text, 64));
        Problem::field("", message)
    })
}
