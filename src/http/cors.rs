//! Cross-origin requests (the Fetch standard). Only pages of configured origins may read responses, and pages of other
//! origins may not make a browser change anything.
//!
//! `CorsLayer` of `tower-http` is not used: it responds to every `OPTIONS` request itself, including requests without a
//! preflight header and those of other origins, and it has no rules for a single path.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, VARY,
};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use url::Url;

use super::Problem;
use super::security::RESOURCE_POLICY;

/// Fetch Metadata: the relation between the page's origin and this service.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// The headers that cross-origin requests may have.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, cache-control, content-type, idempotency-key, if-match, if-none-match, if-range, \
     last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, prefer, range, traceparent, tracestate, \
     x-request-id",
);
/// The response headers that a page may read.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-range, etag, idempotency-replayed, location, mcp-session-id, preference-applied, retry-after, x-request-id",
);
/// How long browsers may cache a preflight response, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const VARIES: HeaderValue = HeaderValue::from_static("origin");
const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");

/// The endpoint that checks origins itself.
const MCP: &str = "/mcp";

/// The allowed origins, and the origins that are allowed only for [`MCP`].
#[derive(Debug, Clone, Default)]
pub(super) struct Cors {
    all: Arc<[HeaderValue]>,
    of_mcp: Arc<[HeaderValue]>,
}

impl Cors {
    pub fn of(origins: &[String], of_mcp: &[String]) -> Self {
        // A browser cannot send an origin that is not a valid header value.
        let all = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        Self { all, of_mcp: of_mcp.iter().filter_map(|given| written(given)).collect() }
    }

    /// Returns the request's origin if it is allowed.
    pub fn named(&self, request: &Request) -> Option<HeaderValue> {
        let is_named =
            |origin: &&HeaderValue| self.all.contains(origin) || is_of_mcp(request) && self.of_mcp.contains(origin);
        request.headers().get(ORIGIN).filter(is_named).cloned()
    }

    /// Returns the response to a preflight request from an allowed origin, or the rejection of a changing request from
    /// a page of another origin.
    ///
    /// Browsers report the relation of the page in `Sec-Fetch-Site`. [`MCP`] checks requests with an `Origin` header
    /// itself.
    pub fn answer(&self, request: &Request, named: Option<&HeaderValue>) -> Option<Response> {
        let headers = request.headers();
        if request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            named?;
            let preflight = [
                (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
                (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            ];
            return Some((StatusCode::NO_CONTENT, preflight).into_response());
        }
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let from = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_foreign = matches!(from, Some(b"cross-site" | b"same-site"));
        let is_judged = named.is_some() || is_of_mcp(request) && headers.contains_key(ORIGIN);
        (changes && is_foreign && !is_judged).then(|| Problem::cross_origin().into_response())
    }

    /// Adds the headers that let a page of an allowed origin read the response.
    pub fn open(&self, headers: &mut HeaderMap, named: Option<HeaderValue>) {
        if self.all.is_empty() && self.of_mcp.is_empty() {
            return;
        }
        headers.append(VARY, VARIES);
        if let Some(origin) = named {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
            headers.insert(RESOURCE_POLICY, CROSS_ORIGIN);
        }
    }
}

fn is_of_mcp(request: &Request) -> bool {
    request.uri().path() == MCP
}

/// Normalizes an origin to the form that browsers send.
fn written(given: &str) -> Option<HeaderValue> {
    let origin = Url::parse(given).ok()?.origin();
    // An opaque origin would become `null`, which every sandboxed page sends.
    let origin = origin.is_tuple().then(|| origin.ascii_serialization())?;
    HeaderValue::from_str(&origin).ok()
}
