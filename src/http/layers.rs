//! The outermost layer of the service: the form of paths, request ids, cross-origin checks, rendering of problems, and
//! security headers.
//!
//! The layers of `tower-http` are not equivalent. `SetRequestIdLayer` keeps any id that a client sends, and a problem
//! has the id in its body. `CatchPanicLayer` boxes the body of each response. One `SetResponseHeaderLayer` per header
//! costs more than copying a map with all headers.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::task::{Context as Poller, Poll};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use tower::Service;

use super::client_address::ClientAddress;
use super::cors::Cors;
use super::security::REQUEST_ID;
use super::{AppState, Problem, large_requests, paths, request_headers, security};
use crate::telemetry::Context;

/// Maximum length of a request id that is accepted from a client, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Assigns an id to each request (the client's, if it is valid), catches panics, and renders problems.
#[derive(Clone)]
pub struct Outermost<S> {
    inner: S,
    state: AppState,
    cors: Cors,
}

impl<S> Outermost<S> {
    pub(super) fn new(inner: S, state: AppState) -> Self {
        let cors = Cors::of(&state.config.server.cors_origins, &state.config.mcp.allowed_origins);
        Self { inner, state, cors }
    }
}

impl<S> Service<Request> for Outermost<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(poller)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        paths::normalize(&mut request);
        let given = request.headers().get(REQUEST_ID).filter(|id| is_good(id)).cloned();
        let id = given.unwrap_or_else(|| new_id(&self.state));
        let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
        let cors = self.cors.clone();
        let named = cors.named(&request);
        let refusal =
            request_headers::check_host(request.version(), request.headers()).err().map(Problem::into_response);
        if let Some(answer) = refusal.or_else(|| cors.answer(&request, named.as_ref())) {
            let mut response = finish(answer, id);
            cors.open(response.headers_mut(), named);
            return Box::pin(std::future::ready(Ok(response)));
        }
        let large = large_requests::is_large(&request).then(|| (self.state.large_requests.clone(), id.clone()));
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let context = Context::of_request(id.clone(), client);
        let answered = context.scope(async move {
            let response = answer.await.unwrap_or_else(|_| {
                tracing::error!("a request handler panicked");
                Ok(Problem::internal().into_response())
            });
            response.map(|response| {
                let mut response = finish(response, id);
                cors.open(response.headers_mut(), named);
                response
            })
        });
        match large {
            None => Box::pin(answered),
            Some((large, id)) => Box::pin(async move {
                let ended = || Ok(finish(Problem::internal().into_response(), id));
                large.run(answered).await.unwrap_or_else(ended)
            }),
        }
    }
}

fn finish(mut response: Response, id: HeaderValue) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Problem>();
    // An error of the framework, for example for a path that is not UTF-8.
    let is_bare = problem.is_none() && (status.is_client_error() || status.is_server_error()) && !is_json(&response);
    if let Some(problem) = problem.or_else(|| is_bare.then(|| Problem::of_status(status))) {
        let mut written = problem.render(id.to_str().unwrap_or_default());
        // Headers that the router added, such as `Allow`, are kept.
        for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_TYPE) {
            written.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        written.headers_mut().remove(axum::http::header::CONTENT_LENGTH);
        response = written;
    }
    security::secure(response.headers_mut(), id);
    response
}

/// Returns `true` for a JSON response. Errors of JSON-RPC are not converted to problems.
fn is_json(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json")
}

fn is_good(id: &HeaderValue) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

fn new_id(state: &AppState) -> HeaderValue {
    let id = state.engine.new_id();
    let mut text = uuid::Uuid::encode_buffer();
    // A hyphenated UUID is a valid header value.
    HeaderValue::from_str(id.as_hyphenated().encode_lower(&mut text)).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Renders a problem as bytes for a connection that closes with it.
pub(super) fn last_words(state: &AppState, problem: Problem) -> bytes::Bytes {
    bytes_of(finish(problem.into_response(), new_id(state)))
}

/// Renders a response as bytes for a connection that closes with it.
fn bytes_of(response: Response) -> bytes::Bytes {
    let (parts, body) = response.into_parts();
    // The body of a problem is available immediately.
    let body = body.collect().now_or_never().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let reason = parts.status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_u16()).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    bytes.into()
}
