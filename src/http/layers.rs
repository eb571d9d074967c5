//! The layers in front of all routes, from the outermost one to the innermost one.
//!
//! What `tower-http` has is used as it is, except where it would cost each call too much:
//! [`ScopedService`](super::request_scope::ScopedService) adds the id to the response, next to the one in the body of a problem, and
//! [`security::secure`](super::security::secure) adds all default headers at once.

use std::any::Any;
use std::convert::Infallible;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestId, RequestId, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::cors::{CorsOfPages, Origins};
use super::request_scope::{ScopeLayer, id_of, render};
use super::security::REQUEST_ID;
use super::{AppState, Problem, paths, security};

/// Maximum length of a request id that is accepted from a client, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Puts the layers in front of the routes.
pub(super) fn around<S>(inner: S, state: AppState) -> impl HttpService
where
    S: HttpService,
{
    let origins = Origins::new(&state.config.server.cors_origins, &state.config.mcp.allowed_origins);
    let cors = (!origins.is_empty()).then(|| CorsOfPages::new(origins.clone()));
    let varies = cors.is_some().then(|| SetResponseHeaderLayer::appending(VARY, HeaderValue::from_static("origin")));
    let inner = ServiceBuilder::new()
        .option_layer(varies)
        .layer(ScopeLayer::new(state.clone(), origins))
        .option_layer(cors)
        .map_response(into_body)
        .layer(CatchPanicLayer::custom(panicked))
        .service(inner);
    with_headers(inner, state)
}

/// Puts the layers in front of a service that are about headers: the id of each request, and the default headers of each
/// response.
fn with_headers<S>(inner: S, state: AppState) -> impl HttpService
where
    S: HttpService,
{
    ServiceBuilder::new()
        .map_request(prepare)
        .layer(SetSensitiveRequestHeadersLayer::new([AUTHORIZATION, COOKIE]))
        .layer(SetRequestIdLayer::x_request_id(RequestIds(state)))
        .map_response(secured)
        .service(inner)
}

/// Limits the bodies of requests to this size, in bytes.
pub(super) fn body_limit<S>(max: usize, inner: S) -> impl HttpService
where
    S: HttpService,
{
    ServiceBuilder::new()
        .map_response(move |response: Response<_>| {
            let is_problem = response.extensions().get::<Problem>().is_some();
            match response.status() {
                StatusCode::PAYLOAD_TOO_LARGE if !is_problem => Problem::body_too_large(max).into_response(),
                _ => into_body(response),
            }
        })
        .layer(RequestBodyLimitLayer::new(max))
        .map_request(|request: Request<tower_http::body::Limited<Body>>| request.map(Body::new))
        .service(inner)
}

/// A service that answers each request. Cheap to clone.
pub(super) trait HttpService:
    Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Clone + Send + Sync + 'static
{
}

impl<S> HttpService for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Normalizes the path, and removes an id that is not accepted.
fn prepare(mut request: Request) -> Request {
    paths::normalize(&mut request);
    if request.headers().get(REQUEST_ID).is_some_and(|id| !is_good(id)) {
        request.headers_mut().remove(REQUEST_ID);
    }
    request
}

fn is_good(id: &HeaderValue) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

/// Creates the ids of requests.
#[derive(Clone)]
struct RequestIds(AppState);

impl MakeRequestId for RequestIds {
    fn make_request_id<B>(&mut self, _: &Request<B>) -> Option<RequestId> {
        let mut text = uuid::Uuid::encode_buffer();
        // A hyphenated UUID is a valid header value.
        HeaderValue::from_str(self.0.engine.new_id().as_hyphenated().encode_lower(&mut text)).ok().map(RequestId::new)
    }
}

fn secured(mut response: Response) -> Response {
    security::secure(response.headers_mut());
    response
}

fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request handler panicked");
    Problem::internal().into_response()
}

/// Converts the body of a response.
pub(super) fn into_body<B>(response: Response<B>) -> Response
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    response.map(Body::new)
}

/// Renders a problem as bytes for a connection that closes with it.
pub(super) fn last_words(state: &AppState, problem: Problem) -> Bytes {
    let rendered = service_fn(move |request: Request| {
        let response = render(problem.clone().into_response(), id_of(&request));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // The response and its body are available immediately.
    let response = with_headers(rendered, state.clone()).oneshot(Request::default()).now_or_never();
    response.and_then(Result::ok).map(bytes_of).unwrap_or_default()
}

/// Renders a response as bytes for a connection that closes with it.
fn bytes_of(response: Response) -> Bytes {
    let (parts, body) = response.into_parts();
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
