//! Cross-origin requests (the Fetch standard). Only pages of configured origins may read responses, and pages of other
//! origins may not make a browser change anything.
//!
//! `CorsLayer` of `tower-http` answers every `OPTIONS` request, so requests of other origins bypass it. Its `CsrfLayer` is not
//! used: it compares the `Origin` with the `Host`, which a gateway may rewrite.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::TryFutureExt;
use futures_util::future::{Either, MapOk};
use tower::{Layer, Service};
use tower_http::cors::{AllowOrigin, Cors, CorsLayer, ResponseFuture};
use url::Url;

use super::security::{CROSS_ORIGIN, REQUEST_ID, RESOURCE_POLICY};
use super::{HttpResult, Problem, paths};

/// Fetch Metadata: the relation between the page's origin and this service.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How long browsers may cache a preflight response.
const MAX_AGE: Duration = Duration::from_secs(600);
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
/// The headers that cross-origin requests may have.
const ALLOWED_HEADERS: [HeaderName; 18] = [
    header::ACCEPT,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    HeaderName::from_static("idempotency-key"),
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("prefer"),
    header::RANGE,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    REQUEST_ID,
];
/// The response headers that a page may read.
const EXPOSED_HEADERS: [HeaderName; 9] = [
    header::ACCEPT_RANGES,
    header::CONTENT_RANGE,
    header::ETAG,
    HeaderName::from_static("idempotency-replayed"),
    header::LOCATION,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("preference-applied"),
    header::RETRY_AFTER,
    REQUEST_ID,
];

/// Returns `true` if a page of another site sent the request, according to its browser.
pub(super) fn is_foreign(request: &Request) -> bool {
    let from = request.headers().get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    matches!(from, Some(b"cross-site" | b"same-site"))
}

/// The allowed origins, and the origins that are allowed only for `/mcp`, whose endpoint checks origins itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins {
    all: Arc<[HeaderValue]>,
    of_mcp: Arc<[HeaderValue]>,
}

impl Origins {
    pub fn new(origins: &[String], of_mcp: &[String]) -> Self {
        // A browser cannot send an origin that is not a valid header value.
        let all = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        Self { all, of_mcp: of_mcp.iter().filter_map(|given| written(given)).collect() }
    }

    /// Returns `true` if no origin is allowed.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.of_mcp.is_empty()
    }

    /// Returns `true` if the request's origin is allowed.
    fn lists(&self, request: &Request) -> bool {
        let is_listed = |origin| self.all.contains(origin) || is_of_mcp(request) && self.of_mcp.contains(origin);
        request.headers().get(header::ORIGIN).is_some_and(is_listed)
    }

    /// Checks that no page of another origin makes a browser change anything.
    ///
    /// # Errors
    /// Returns a 403 for such a request.
    pub fn check(&self, request: &Request) -> HttpResult<()> {
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let is_judged = || is_of_mcp(request) && request.headers().contains_key(header::ORIGIN);
        match changes && is_foreign(request) && !self.lists(request) && !is_judged() {
            true => Err(Problem::cross_origin()),
            false => Ok(()),
        }
    }
}

fn is_of_mcp(request: &Request) -> bool {
    request.uri().path() == paths::MCP
}

/// Normalizes an origin to the form that browsers send.
fn written(given: &str) -> Option<HeaderValue> {
    let origin = Url::parse(given).ok()?.origin();
    // An opaque origin would become `null`, which every sandboxed page sends.
    let origin = origin.is_tuple().then(|| origin.ascii_serialization())?;
    HeaderValue::from_str(&origin).ok()
}

/// A layer that lets pages of allowed origins read responses.
#[derive(Debug, Clone)]
pub(super) struct CorsOfPages {
    origins: Origins,
    cors: CorsLayer,
}

impl CorsOfPages {
    pub fn new(origins: Origins) -> Self {
        let cors = CorsLayer::new()
            .allow_origin(AllowOrigin::mirror_request())
            .allow_methods(METHODS)
            .allow_headers(ALLOWED_HEADERS)
            .expose_headers(EXPOSED_HEADERS)
            .max_age(MAX_AGE)
            // Responses to other origins vary, too, so another layer adds the header.
            .vary([]);
        Self { origins, cors }
    }
}

impl<S: Clone> Layer<S> for CorsOfPages {
    type Service = PagesService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PagesService { origins: self.origins.clone(), cors: self.cors.layer(inner.clone()), inner }
    }
}

/// The service of [`CorsOfPages`].
#[derive(Debug, Clone)]
pub(super) struct PagesService<S> {
    origins: Origins,
    cors: Cors<S>,
    inner: S,
}

impl<S> Service<Request> for PagesService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<MapOk<ResponseFuture<S::Future>, fn(Response) -> Response>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.origins.lists(&request) {
            true => Either::Left(self.cors.call(request).map_ok(opened)),
            false => Either::Right(self.inner.call(request)),
        }
    }
}

/// Completes a response to a page of an allowed origin.
fn opened(mut response: Response) -> Response {
    if response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_METHODS) {
        // The response to a preflight request has no body.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response.headers_mut().insert(RESOURCE_POLICY, CROSS_ORIGIN);
    response
}
