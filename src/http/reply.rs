//! JSON answers, and conditional requests (RFC 9110, section 13).

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::security;

/// Room for the usual answer, so that it is written without moving.
const USUAL_BYTES: usize = 2048;

/// A JSON answer.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let written = serde_json::to_writer(&mut bytes, body);
    self::written(status, written.map(|()| bytes))
}

/// A JSON answer that was written already.
pub(super) fn written(status: StatusCode, body: serde_json::Result<impl Into<Body>>) -> Response {
    match body {
        Ok(bytes) => {
            let mut response = Response::new(bytes.into());
            *response.status_mut() = status;
            *response.headers_mut() = security::of_json();
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written");
            super::Problem::internal().into_response()
        }
    }
}

/// A JSON answer under an entity tag; 304 if the caller has it already.
pub(super) fn tagged(request: &HeaderMap, status: StatusCode, etag: &str, body: &impl Serialize) -> Response {
    let mut response = match lists(request, header::IF_NONE_MATCH, etag) {
        Some(true) if status == StatusCode::OK => StatusCode::NOT_MODIFIED.into_response(),
        _ => json(status, body),
    };
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// A body that is made already, under an entity tag; 304 if the caller has it already.
pub(super) fn bytes(request: &HeaderMap, media_type: &'static str, etag: &str, body: Bytes) -> Response {
    let mut response = match lists(request, header::IF_NONE_MATCH, etag) {
        Some(true) => StatusCode::NOT_MODIFIED.into_response(),
        _ => (StatusCode::OK, [(header::CONTENT_TYPE, media_type)], body).into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Whether a list of entity tags holds this one, or is `*`; `None` if the header is absent. The comparison is weak for
/// `If-None-Match` and strong for `If-Match`, and ours are all strong.
pub(super) fn lists(request: &HeaderMap, name: header::HeaderName, etag: &str) -> Option<bool> {
    let is_weak_enough = name == header::IF_NONE_MATCH;
    let mut given = request.get_all(name).iter().peekable();
    given.peek()?;
    let held = given.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|tag| {
        let tag = tag.trim();
        let opaque = if is_weak_enough { tag.strip_prefix("W/").unwrap_or(tag) } else { tag };
        tag == "*" || opaque == etag
    });
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_compared_as_their_header_asks() {
        let of = |name: header::HeaderName, text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name.clone(), HeaderValue::from_static(text));
            lists(&headers, name, "\"a\"")
        };
        assert_eq!(of(header::IF_MATCH, "\"b\", \"a\""), Some(true));
        assert_eq!(of(header::IF_MATCH, "W/\"a\""), Some(false));
        assert_eq!(of(header::IF_NONE_MATCH, "W/\"a\""), Some(true));
        assert_eq!(of(header::IF_MATCH, "*"), Some(true));
        assert_eq!(lists(&HeaderMap::new(), header::IF_MATCH, "\"a\""), None);
    }
}
