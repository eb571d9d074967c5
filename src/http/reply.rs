//! JSON responses, and conditional requests (RFC 9110, section 13).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::security;
use crate::domain::call::Counted;
use crate::formats::native::Pieces;

/// Initial capacity of a response: large enough for most, so that the buffer is not reallocated.
const INITIAL_CAPACITY: usize = 2048;

/// Creates a JSON response.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
    let written = serde_json::to_writer(&mut bytes, body);
    self::written(status, written.map(|()| bytes))
}

/// Creates a 200 with a JSON body.
pub(super) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// Creates a 202 with a JSON body.
pub(super) fn accepted(body: &impl Serialize) -> Response {
    json(StatusCode::ACCEPTED, body)
}

/// Turns the response with a new resource into a 201 with its `Location`.
pub(super) fn created(location: &str, mut response: Response) -> Response {
    *response.status_mut() = StatusCode::CREATED;
    at(location, response)
}

/// Adds a `Location` header to a response.
pub(super) fn at(location: &str, mut response: Response) -> Response {
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Creates a response from rendered JSON.
pub(super) fn written(status: StatusCode, body: serde_json::Result<impl Into<Body>>) -> Response {
    match body {
        Ok(bytes) => {
            let mut response = Response::new(bytes.into());
            *response.status_mut() = status;
            *response.headers_mut() = security::of_json();
            response
        }
        Err(error) => {
            tracing::error!(%error, "cannot render a response");
            super::Problem::internal().into_response()
        }
    }
}

/// Creates a response from JSON rendered in chunks. `counted` is held until the body was sent.
pub(super) fn pieces(status: StatusCode, body: serde_json::Result<Pieces>, counted: Counted) -> Response {
    written(status, body.map(|pieces| PiecesBody::build_body(pieces, counted)))
}

/// A body of consecutive chunks of JSON.
struct PiecesBody {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
    _counted: Counted,
}

impl PiecesBody {
    /// Creates the body. A single uncounted chunk becomes a plain body.
    fn build_body(pieces: Pieces, counted: Counted) -> Body {
        let mut pieces = pieces.into_pieces();
        if pieces.len() == 1 && counted.0.is_none() {
            return pieces.pop().unwrap_or_default().into();
        }
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::new(Self { pieces: pieces.into_iter(), left, _counted: counted })
    }
}

impl HttpBody for PiecesBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.next();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Creates a JSON response with an entity tag, or 304 if the client already has this version.
pub(super) fn tagged(request: &HeaderMap, etag: &str, body: &impl Serialize) -> Response {
    conditional(request, etag, || ok(body))
}

/// Creates a response from rendered bytes with an entity tag, or 304 if the client already has this version.
pub(super) fn bytes(request: &HeaderMap, media_type: &'static str, etag: &str, body: Bytes) -> Response {
    conditional(request, etag, || ([(header::CONTENT_TYPE, media_type)], body).into_response())
}

fn conditional(request: &HeaderMap, etag: &str, whole: impl FnOnce() -> Response) -> Response {
    let mut response = match lists(request, header::IF_NONE_MATCH, etag) {
        Some(true) => StatusCode::NOT_MODIFIED.into_response(),
        _ => whole(),
    };
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Returns whether a header lists this entity tag or is `*`; `None` if the header is absent.
///
/// The comparison is weak for `If-None-Match` and strong for `If-Match`. `etag` must be strong.
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
    fn entity_tag_comparison_depends_on_the_header() {
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
