//! The forms of a response that a client accepts (RFC 9110, section 12.5.1), and the conversion to them. rmcp wants every
//! client to accept both of its forms, and chooses one.

use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use futures_util::StreamExt;
use rmcp::ErrorData;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::call::RETRY_LATER;
use super::refusal::refused;
use crate::formats::sse;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The header with the revision of a session, which revisions from 2025-06-18 on require.
const VERSION: &str = "mcp-protocol-version";
/// The revisions whose clients may send batches.
const WITH_BATCHES: [&str; 2] = ["2025-03-26", "2024-11-05"];

/// Returns `true` if the client may send batches of messages.
pub(super) fn takes_batches(headers: &HeaderMap) -> bool {
    headers.get(VERSION).is_none_or(|version| WITH_BATCHES.iter().any(|old| version == old))
}

/// The forms of a response that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcceptedForms {
    /// One message as JSON.
    pub json: bool,
    /// Messages as events.
    pub events: bool,
}

impl AcceptedForms {
    /// Reads `Accept`. A client that sends none accepts everything.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let ranges = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|range| !range.is_empty());
        let (mut json, mut events, mut is_given) = (Choice::default(), Choice::default(), false);
        for range in ranges {
            is_given = true;
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            let is_allowed = weight.and_then(|weight| weight.parse::<f32>().ok()).is_none_or(|weight| weight > 0.0);
            json.apply(media_type, JSON, is_allowed);
            events.apply(media_type, EVENTS, is_allowed);
        }
        Self { json: !is_given || json.is_allowed, events: !is_given || events.is_allowed }
    }

    /// Returns `true` if the client accepts neither form.
    pub fn is_neither(self) -> bool {
        !self.json && !self.events
    }

    /// Tells rmcp that a client which accepts any form accepts both, or events only for a stream without an end.
    pub fn widen(self, headers: &mut HeaderMap, is_endless: bool) {
        let accept = match (is_endless, self.events) {
            (false, _) => "application/json, text/event-stream",
            (true, true) => EVENTS,
            (true, false) => JSON,
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
    }

    /// Converts a response to a request to a form that the client accepts.
    pub async fn convert(self, answer: Response<Body>, request: &Value) -> Response<Body> {
        let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media_type.split(';').next().unwrap_or_default().trim() {
            EVENTS if !self.events => answer_of(answer, request).await,
            // An error of the transport stays as it is: it is no event of a stream.
            JSON if !self.json && answer.status() == StatusCode::OK => as_event(answer).await,
            _ => answer,
        }
    }
}

/// Whether a media type is allowed, by the most specific range so far.
#[derive(Debug, Default)]
struct Choice {
    is_allowed: bool,
    /// From 0 for no range to 3 for the media type itself.
    specificity: u8,
}

impl Choice {
    fn apply(&mut self, range: &str, media_type: &str, is_allowed: bool) {
        let is_of_kind = |kind: &str| media_type.split_once('/').is_some_and(|(own, _)| own.eq_ignore_ascii_case(kind));
        let specificity = match range {
            _ if range.eq_ignore_ascii_case(media_type) => 3,
            // Java's URLConnection sends a single star.
            "*/*" | "*" => 1,
            _ if range.strip_suffix("/*").is_some_and(is_of_kind) => 2,
            _ => return,
        };
        if specificity >= self.specificity {
            self.is_allowed = is_allowed || specificity == self.specificity && self.is_allowed;
            self.specificity = specificity;
        }
    }
}

/// Returns the response among the events of a stream as JSON. Progress is not sent.
async fn answer_of(answer: Response<Body>, request: &Value) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let (mut chunks, mut parser) = (body.into_data_stream(), sse::Parser::new(usize::MAX));
    let mut found = None;
    // Read to its end: a stream that is dropped earlier counts as a lost client.
    while let Some(Ok(chunk)) = chunks.next().await {
        let mut rest = &chunk[..];
        while let Ok(Some(event)) = parser.next(&mut rest) {
            if is_response(&event.data) {
                found = Some(event.data);
            }
        }
    }
    let Some(message) = found else {
        let data = json!({"code": "CANCELLED", "retryable": false});
        let error = ErrorData::new(RETRY_LATER, "the request was cancelled before its response", Some(data));
        return refused(StatusCode::OK, request, &error);
    };
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, message.into())
}

/// Returns a JSON message as the only event of a stream.
async fn as_event(answer: Response<Body>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    // The body was created by this process.
    let Ok(message) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let event = [&b"data: "[..], &message, b"\n\n"].concat();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, event.into())
}

fn is_response(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members {
        method: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Members>(message)
        .is_ok_and(|message| message.method.is_none() && (message.result.is_some() || message.error.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_specific_range_decides() {
        for (accept, json, events) in [
            (&[][..], true, true),
            (&[""], true, true),
            (&["*/*"], true, true),
            (&["*"], true, true),
            (&["application/json"], true, false),
            (&["Application/*;q=0.2"], true, false),
            (&["text/event-stream"], false, true),
            (&["text/*, text/html"], false, true),
            (&["application/json; charset=utf-8, text/event-stream;q=0.9"], true, true),
            (&["application/json;q=0, */*"], false, true),
            (&["*/*;q=0.1", "text/event-stream; q=0.0"], true, false),
            (&["text/html"], false, false),
            (&["text/html, image/*", "*/*;q=0"], false, false),
            (&["application/jsonx"], false, false),
        ] {
            let lines = accept.iter().map(|line| (ACCEPT, HeaderValue::from_static(line)));
            assert_eq!(AcceptedForms::of(&lines.collect()), AcceptedForms { json, events }, "{accept:?}");
        }
    }

    #[test]
    fn only_a_result_or_an_error_is_a_response() {
        assert!(is_response(br#"{"id":1,"result":{}}"#) && is_response(br#"{"id":null,"error":{"code":1}}"#));
        assert!(!is_response(br#"{"id":1,"method":"ping"}"#) && !is_response(b"") && !is_response(b"[]"));
    }
}
