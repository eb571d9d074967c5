//! What every request passes: its id, whether its page may ask, problems written out, and what answers say to browsers.
//!
//! The layers of `tower-http` do not do the same. `SetRequestIdLayer` keeps any id that a caller sends, and a problem has the id
//! in its body. `CatchPanicLayer` boxes the body of each answer. One `SetResponseHeaderLayer` a header costs more than the copy of
//! a map with all of them.

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
use super::problem::Problem;
use super::security::REQUEST_ID;
use super::{AppState, host, security};
use crate::telemetry::Context;

/// Longest id that is taken over from a caller.
const LONGEST_ID: usize = 128;

/// Gives each request an id (the caller's, if it is a good one), keeps a panic to itself, and writes problems out.
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

    fn call(&mut self, request: Request) -> Self::Future {
        let given = request.headers().get(REQUEST_ID).filter(|id| is_good(id)).cloned();
        let id = given.unwrap_or_else(|| new_id(&self.state));
        let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
        let cors = self.cors.clone();
        let named = cors.named(&request);
        let refusal = host::check(request.version(), request.headers()).err().map(Problem::into_response);
        if let Some(answer) = refusal.or_else(|| cors.answer(&request, named.as_ref())) {
            let mut response = finish(answer, id);
            cors.open(response.headers_mut(), named);
            return Box::pin(std::future::ready(Ok(response)));
        }
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let context = Context::of_request(id.clone(), client);
        Box::pin(context.scope(async move {
            let response = answer.await.unwrap_or_else(|_| {
                tracing::error!("a request handler panicked");
                Ok(Problem::internal().into_response())
            });
            response.map(|response| {
                let mut response = finish(response, id);
                cors.open(response.headers_mut(), named);
                response
            })
        }))
    }
}

fn finish(mut response: Response, id: HeaderValue) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Problem>();
    // What the framework refuses by itself, as a path that is not UTF-8.
    let is_bare = problem.is_none() && (status.is_client_error() || status.is_server_error()) && !is_json(&response);
    if let Some(problem) = problem.or_else(|| is_bare.then(|| Problem::of_status(status))) {
        let mut written = problem.render(id.to_str().unwrap_or_default());
        // What the router has added, as `Allow`, stays.
        for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_TYPE) {
            written.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        written.headers_mut().remove(axum::http::header::CONTENT_LENGTH);
        response = written;
    }
    security::secure(response.headers_mut(), id);
    response
}

/// Errors of JSON-RPC have a shape of their own.
fn is_json(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json")
}

fn is_good(id: &HeaderValue) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

fn new_id(state: &AppState) -> HeaderValue {
    let id = state.engine.new_id();
    let mut text = uuid::Uuid::encode_buffer();
    // A hyphenated UUID is a valid header value.
    HeaderValue::from_str(id.as_hyphenated().encode_lower(&mut text)).unwrap_or(HeaderValue::from_static("unknown"))
}

/// A problem as bytes, for a connection that ends with it.
pub(super) fn last_words(state: &AppState, problem: Problem) -> bytes::Bytes {
    bytes_of(finish(problem.into_response(), new_id(state)))
}

/// An answer as bytes, for a connection that ends with it.
fn bytes_of(response: Response) -> bytes::Bytes {
    let (parts, body) = response.into_parts();
    // A problem is there at once.
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

/// Paths that there are not.
pub(super) async fn no_such_path() -> Problem {
    Problem::not_found("there is nothing at this path; /openapi.json lists what there is")
}

/// Methods that a path does not have.
pub(super) async fn no_such_method() -> Problem {
    Problem::method_not_allowed()
}
