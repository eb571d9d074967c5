//! Pages of other origins (the Fetch standard): only those that the operator names may read answers, and no other one may
//! have a browser change anything.
//!
//! `CorsLayer` of `tower-http` answers every `OPTIONS` request itself, also one that asks for no page and one of an origin that
//! is not named, and has no rules for one path.

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

use super::problem::Problem;
use super::security::RESOURCE_POLICY;

/// Fetch Metadata: whose page has a browser ask.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// What requests may carry.
const TAKEN: HeaderValue = HeaderValue::from_static(
    "accept, authorization, cache-control, content-type, idempotency-key, if-match, if-none-match, if-range, \
     last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, prefer, range, traceparent, tracestate, \
     x-request-id",
);
/// What of an answer a page may read.
const SHOWN: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-range, etag, idempotency-replayed, location, mcp-session-id, preference-applied, retry-after, x-request-id",
);
/// How long a browser need not ask again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const VARIES: HeaderValue = HeaderValue::from_static("origin");
const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");

/// Where an endpoint has rules of its own about origins.
const MCP: &str = "/mcp";

/// The origins whose pages may use the service, and those that may use [`MCP`] alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Cors {
    all: Arc<[HeaderValue]>,
    of_mcp: Arc<[HeaderValue]>,
}

impl Cors {
    pub fn of(origins: &[String], of_mcp: &[String]) -> Self {
        // What is no header value is no origin that a browser could have.
        let all = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        Self { all, of_mcp: of_mcp.iter().filter_map(|given| written(given)).collect() }
    }

    /// The origin that asks, if it is a named one.
    pub fn named(&self, request: &Request) -> Option<HeaderValue> {
        let is_named =
            |origin: &&HeaderValue| self.all.contains(origin) || is_of_mcp(request) && self.of_mcp.contains(origin);
        request.headers().get(ORIGIN).filter(is_named).cloned()
    }

    /// What is answered before anything is looked at: a browser's question whether a page may ask, and a request by which
    /// a page of an origin that is not named would change something. Browsers say by themselves whose page it is. Pages
    /// that say their origin to [`MCP`] are its own to judge.
    pub fn answer(&self, request: &Request, named: Option<&HeaderValue>) -> Option<Response> {
        let headers = request.headers();
        if request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            named?;
            let told = [
                (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (ACCESS_CONTROL_ALLOW_HEADERS, TAKEN),
                (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            ];
            return Some((StatusCode::NO_CONTENT, told).into_response());
        }
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let from = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_foreign = matches!(from, Some(b"cross-site" | b"same-site"));
        let is_judged = named.is_some() || is_of_mcp(request) && headers.contains_key(ORIGIN);
        (changes && is_foreign && !is_judged).then(|| Problem::cross_origin().into_response())
    }

    /// Lets a page of a named origin read the answer.
    pub fn open(&self, headers: &mut HeaderMap, named: Option<HeaderValue>) {
        if self.all.is_empty() && self.of_mcp.is_empty() {
            return;
        }
        headers.append(VARY, VARIES);
        if let Some(origin) = named {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
            headers.insert(RESOURCE_POLICY, CROSS_ORIGIN);
        }
    }
}

fn is_of_mcp(request: &Request) -> bool {
    request.uri().path() == MCP
}

/// An origin as browsers write it.
fn written(given: &str) -> Option<HeaderValue> {
    let origin = Url::parse(given).ok()?.origin();
    // One that is none would be written as `null`, which is what any page in a sandbox says.
    let origin = origin.is_tuple().then(|| origin.ascii_serialization())?;
    HeaderValue::from_str(&origin).ok()
}
