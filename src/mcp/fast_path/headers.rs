//! The headers of a request, checked as in rmcp. Unusual forms of valid headers are left to it.

use axum::http::header::{ACCEPT, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::message::{MODERN, Method};
use crate::mcp::accepted::AcceptedForms;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The beginning of an encoded name.
const ENCODED: &str = "=?base64?";
/// The keyword of a schema for a header that repeats an argument.
const ANNOTATION: &str = "x-mcp-header";

/// The revisions before 2026-07-28.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The lifecycle of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// A revision before 2026-07-28.
    Legacy,
    /// 2026-07-28: each request has its own metadata.
    Modern,
}

/// Returns the era of a request without a session and without an origin whose client accepts and sends JSON.
pub(super) fn era_of(headers: &HeaderMap) -> Option<Era> {
    let is_plain = !headers.contains_key(SESSION) && !headers.contains_key(ORIGIN);
    if !is_plain || !accepts_json(headers) || !sends_json(headers) {
        return None;
    }
    if !headers.contains_key(VERSION) {
        return Some(Era::Legacy);
    }
    match only(headers, VERSION)? {
        MODERN => Some(Era::Modern),
        version => LEGACY.contains(&version).then_some(Era::Legacy),
    }
}

/// Returns `true` if the headers repeat the method and the name of a request, as 2026-07-28 requires.
pub(super) fn name_request(headers: &HeaderMap, method: Method, name: Option<&str>) -> bool {
    let is_name = |name: &str| only(headers, NAME).is_some_and(|given| given == name && !given.starts_with(ENCODED));
    only(headers, METHOD) == Some(method.name()) && name.is_none_or(is_name)
}

/// Returns `true` if a property of the schema asks for a header.
pub(super) fn has_annotation(schema: &Value) -> bool {
    let Some(Value::Object(properties)) = schema.get("properties") else { return false };
    properties.values().any(|property| property.get(ANNOTATION).is_some() || has_annotation(property))
}

/// Returns the value of a header that occurs once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().filter(|_| values.next().is_none())?;
    first.to_str().ok()
}

/// Returns `true` if the client accepts JSON. Weights and parameters are left to rmcp.
fn accepts_json(headers: &HeaderMap) -> bool {
    let is_plain = |line: &HeaderValue| line.to_str().is_ok_and(|line| !line.contains(['"', ';']));
    headers.get_all(ACCEPT).iter().all(is_plain) && AcceptedForms::of(headers).json
}

fn sends_json(headers: &HeaderMap) -> bool {
    let media_type = only(headers, CONTENT_TYPE).and_then(|given| given.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}
