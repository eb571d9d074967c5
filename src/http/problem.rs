//! HTTP error responses: `application/problem+json` (RFC 9457). A failed tool call is not a problem.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::task::JoinError;

use crate::domain::decode::DecodeError;
use crate::domain::tenant::QuotaResource;
use crate::domain::{Scope, Scopes, json};
use crate::engine::SubmitError;
pub use crate::registry::Fault as FieldError;
use crate::store::StoreError;

/// `Retry-After` of a rejected request, in seconds.
const RETRY_AFTER_S: u64 = 1;
/// `Retry-After` where a resource must be deleted or a session must expire first, in seconds.
const QUOTA_RETRY_AFTER_S: u64 = 60;

/// The result of a handler: a response, unless it is given another type, or a problem.
pub type HttpResult<T = Response> = Result<T, Problem>;

/// An HTTP error response: the fault of a request, or a temporary state of the service.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    /// Additional headers of the response, such as `Retry-After`.
    headers: Vec<(HeaderName, HeaderValue)>,
}

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
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    /// Adds a header; one whose value is not valid is omitted.
    pub(super) fn with(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Self {
        self.headers.extend(value.try_into().ok().map(|value| (name, value)));
        self
    }

    /// Adds the position of the invalid field, with the detail as its message.
    pub(super) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.errors.push(FieldError { pointer: pointer.into(), message: self.detail.clone() });
        self
    }

    /// Puts the errors of a part of the body at their places in the body.
    pub(super) fn within(mut self, pointer: &str) -> Self {
        self.errors.iter_mut().for_each(|error| error.pointer.insert_str(0, pointer));
        self
    }

    /// 400: the body is not valid JSON.
    pub(super) fn bad_json(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_JSON", reason)
    }

    /// 400: the request is not valid HTTP.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail)
    }

    /// 401: credentials are required.
    pub(super) fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", detail).with(header::WWW_AUTHENTICATE, "Bearer")
    }

    /// 401: the request has no credentials.
    pub(super) fn missing_key() -> Self {
        Self::unauthorized(
            "authentication required: send `Authorization: Bearer tp_…`; create a key with `toolpost keys create --scope call`",
        )
    }

    /// 401: the call token is missing, or belongs to another call.
    pub(super) fn wrong_token() -> Self {
        Self::unauthorized("this endpoint requires the `token` that was sent to the tool with the call")
    }

    /// 401: the credentials are invalid.
    pub(super) fn invalid_key(reason: &str) -> Self {
        let problem = Self::new(StatusCode::UNAUTHORIZED, "INVALID_KEY", reason);
        problem.with(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
    }

    /// 403: the key has none of these scopes.
    pub(super) fn scope_missing(scopes: Scopes) -> Self {
        let names: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
        let detail = format!("a key with the scope `{}` is required", names.join("` or `"));
        // The challenge names what the request requires (RFC 6750, section 3).
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", names.join(" "));
        Self::new(StatusCode::FORBIDDEN, "SCOPE_MISSING", detail).with(header::WWW_AUTHENTICATE, challenge)
    }

    /// 403: the caller lacks the permission.
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
    }

    /// 403: the caller made the call that it approves.
    pub(super) fn approval_self(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "APPROVAL_SELF", detail)
    }

    /// 403: a page of another origin sent a request that changes state.
    pub(super) fn cross_origin() -> Self {
        let detail = "cross-origin request refused; the operator can allow the origin in server.cors_origins";
        Self::new(StatusCode::FORBIDDEN, "CROSS_ORIGIN", detail)
    }

    /// 404.
    pub(super) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", what)
    }

    /// 404: nothing of this kind has this name.
    pub(super) fn unknown(kind: &str, name: &str) -> Self {
        Self::not_found(format!("unknown {kind} \"{}\"", json::shorten(name, 128)))
    }

    /// 405; the `Allow` header is added by the router.
    pub(super) fn method_not_allowed() -> Self {
        let detail = "method not allowed for this path; see the Allow header";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
    }

    /// 408: a part of the request was not received in time.
    pub(super) fn timeout(part: &str, after: Duration) -> Self {
        let detail = format!("the request {part} did not arrive within {} ms", after.as_millis());
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", detail)
    }

    /// 409.
    pub(super) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 412.
    pub(super) fn precondition_failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "PRECONDITION_FAILED", detail)
    }

    /// 413.
    pub(super) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 413: the body has more bytes than this.
    pub(super) fn body_too_large(max: usize) -> Self {
        Self::too_large(format!("the request body is larger than {max} bytes"))
    }

    /// 413: incrementally sent arguments are too large.
    pub(super) fn arguments_too_large(limit: usize) -> Self {
        Self::too_large(format!("the arguments are larger than {limit} bytes; the chunk was not accepted"))
    }

    /// 413: the request has more calls than allowed.
    pub(super) fn batch_too_large(pointer: &str, max: usize, found: usize) -> Self {
        let detail = format!("a request can have at most {max} calls, got {found}; send several requests");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BATCH_TOO_LARGE", detail).at(pointer)
    }

    /// 414 or 431: the request target or the headers are too large.
    pub(super) fn head_too_large(status: StatusCode) -> Self {
        let detail = "the URL or the headers of the request are too large, or too many headers were sent";
        Self::new(status, "REQUEST_HEAD_TOO_LARGE", detail)
    }

    /// 415.
    pub(super) fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
    }

    /// 415: the body is not JSON.
    pub(super) fn not_json(found: &str) -> Self {
        let found = if found.is_empty() { "none" } else { found };
        Self::unsupported(format!("the Content-Type must be application/json, not {found}"))
    }

    /// 416.
    pub(super) fn range_not_satisfiable(length: usize) -> Self {
        let detail = format!("the range is outside the {length} bytes of the body");
        let problem = Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", detail);
        problem.with(header::CONTENT_RANGE, format!("bytes */{length}"))
    }

    /// 422: the body or the query does not match its schema.
    pub(super) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] if one.pointer.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.pointer, one.message),
            many => format!("{} fields are invalid; see `errors`", many.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_REQUEST", detail) }
    }

    /// 422 with a single field.
    pub(super) fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.into(), message: message.into() }])
    }

    /// 422: a part of the query is invalid.
    pub(super) fn query(message: impl std::fmt::Display) -> Self {
        Self::field("", format!("query: {message}"))
    }

    /// 422: the idempotency key belongs to a different request.
    pub(super) fn key_reused(pointer: &str) -> Self {
        let detail = "the idempotency key was already used for a different request; use a new key";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED", detail).at(pointer)
    }

    /// 429, with the time after which the request can be repeated.
    pub(super) fn too_many(code: &'static str, what: &str, retry_after_s: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, what).with(header::RETRY_AFTER, retry_after_s)
    }

    /// 429: the tenant has reached its quota of this resource.
    fn quota(what: QuotaResource, max: u32) -> Self {
        let code = match what {
            QuotaResource::Tool => "TOO_MANY_TOOLS",
            QuotaResource::Group => "TOO_MANY_GROUPS",
            QuotaResource::Hook => "TOO_MANY_HOOKS",
            QuotaResource::Policy => "TOO_MANY_POLICIES",
            QuotaResource::Budget => "TOO_MANY_BUDGETS",
            QuotaResource::Session => "TOO_MANY_SESSIONS",
            QuotaResource::Key => "TOO_MANY_KEYS",
        };
        let way_out = if what == QuotaResource::Key { "revoke" } else { "delete" };
        let detail = format!("the limit of {max} {} is reached; {way_out} one first", what.words());
        Self::too_many(code, &detail, QUOTA_RETRY_AFTER_S)
    }

    /// 500: an internal error. The response contains no details.
    pub(super) fn internal() -> Self {
        let detail = "internal error; search the service log for the request_id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
    }

    /// 503: the service is temporarily unable to accept the request.
    pub(super) fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).with(header::RETRY_AFTER, RETRY_AFTER_S)
    }

    /// 503: a limit of the service is reached.
    pub(super) fn overloaded(detail: &str) -> Self {
        Self::unavailable("OVERLOADED", detail)
    }

    /// 503: too many calls are in flight.
    pub(super) fn too_many_calls() -> Self {
        Self::overloaded("too many calls are in flight; no call was accepted, retry later")
    }

    /// 503: too many reports of this call are not yet recorded.
    pub(super) fn report_backlog_full() -> Self {
        Self::overloaded(
            "too many reports of this call are not yet recorded; this report was not accepted, retry later",
        )
    }

    /// 503: the database is unavailable.
    pub(super) fn store_unavailable(detail: impl Into<String>) -> Self {
        Self::unavailable("STORE_UNAVAILABLE", detail)
    }

    /// 503: the service is shutting down.
    pub(super) fn shutting_down() -> Self {
        Self::unavailable("SHUTTING_DOWN", "the service is shutting down; no call was accepted")
    }

    /// Creates a problem from an error response of the framework.
    pub(super) fn of_status(status: StatusCode) -> Self {
        Self::refused(status, "the request cannot be processed; see /openapi.json")
    }

    /// Creates a problem from a rejection by the server of another protocol, with its text.
    pub(super) fn refused(status: StatusCode, why: impl Into<String>) -> Self {
        let code = match status {
            StatusCode::BAD_REQUEST => "INVALID_REQUEST",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            status if status.is_server_error() => "INTERNAL",
            _ => "REFUSED",
        };
        Self::new(status, code, why)
    }

    /// Renders the response, including the id of the request.
    pub(super) fn render(self, request_id: &str) -> Response {
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
        response.headers_mut().extend(self.headers);
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

impl From<JoinError> for Problem {
    fn from(_: JoinError) -> Self {
        Self::internal()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::TooMany { what, max } = error {
            return Self::quota(what, max);
        }
        tracing::error!(%error, "the store failed");
        match error {
            StoreError::Corrupt(_) => Self::internal(),
            _ => Self::store_unavailable("the database is unavailable; retry later"),
        }
    }
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Self {
        Self::field(error.pointer, error.message)
    }
}

impl From<Vec<FieldError>> for Problem {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::invalid(errors)
    }
}

impl From<SubmitError> for Problem {
    fn from(refusal: SubmitError) -> Self {
        match refusal {
            SubmitError::Overloaded => Self::too_many_calls(),
            SubmitError::ShuttingDown => Self::shutting_down(),
            SubmitError::Store(error) => error.into(),
            SubmitError::Failed => Self::internal(),
        }
    }
}
