//! Rendering of problems as responses.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::{FieldError, Problem};

/// The body of every 4xx and 5xx response (RFC 9457).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// `about:blank`: `title` describes the status.
    r#type: &'a str,
    /// The name of the HTTP status.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// A description of the problem for people.
    detail: &'a str,
    /// A stable code for programs.
    code: &'a str,
    /// The invalid fields of the request.
    errors: &'a [FieldError],
    /// The id of the request, as in `x-request-id`.
    request_id: &'a str,
}

impl Problem {
    /// Renders the response, including the id of the request.
    pub(in crate::http) fn render(&self, request_id: &str) -> Response {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            errors: &self.errors,
            request_id,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some((name, value)) = self.header.as_deref() {
            headers.insert(name, value.clone());
        }
        let content_range = self.length.map(|length| format!("bytes */{length}"));
        if let Some(value) = content_range.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(header::CONTENT_RANGE, value);
        }
        response
    }
}

/// The body is written by the outermost layer, which knows the id of the request.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
