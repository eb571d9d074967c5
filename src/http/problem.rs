//! HTTP error responses: `application/problem+json` (RFC 9457). A failed tool call is not a problem.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::domain::decode::DecodeError;
use crate::domain::tenant::QuotaResource;
use crate::domain::{Scope, Scopes};
use crate::engine::SubmitError;
use crate::registry::Fault;
use crate::store::StoreError;

mod body;

pub use body::ProblemBody;

/// `Retry-After` of a rejected request, in seconds.
const RETRY_AFTER_S: u64 = 1;
/// `Retry-After` where a resource must be deleted or a session must expire first, in seconds.
const QUOTA_RETRY_AFTER_S: u64 = 60;

/// An HTTP error response: the fault of a request, or a temporary state of the service.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    retry_after_s: Option<u64>,
    /// One additional header: `Location`, `WWW-Authenticate` or `Accept-Encoding`.
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// The length of the body, in bytes, if the requested range is outside it.
    length: Option<usize>,
}

/// An invalid field of a request.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// The position in the body, as a JSON Pointer (RFC 6901).
    pub pointer: String,
    /// The reason why the field is invalid.
    pub message: String,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_s: None,
            header: None,
            length: None,
        }
    }

    /// 400: the body is not valid JSON.
    pub fn bad_json(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_JSON", reason)
    }

    /// 422: the body or the query does not match its schema.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] if one.pointer.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.pointer, one.message),
            many => format!("{} fields are invalid; see `errors`", many.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_REQUEST", detail) }
    }

    /// 422 with a single field.
    pub fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.into(), message: message.into() }])
    }

    /// 400: the `Host` header is missing, repeated or invalid.
    pub fn bad_host(fault: &str) -> Self {
        let detail = format!("the Host header {fault}; a request must name its host exactly once");
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail)
    }

    /// 404.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", what)
    }

    /// Creates a problem from an error response of the framework.
    pub fn of_status(status: StatusCode) -> Self {
        let code = match status {
            StatusCode::BAD_REQUEST => "INVALID_REQUEST",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            status if status.is_server_error() => "INTERNAL",
            _ => "REFUSED",
        };
        Self::new(status, code, "the request cannot be processed; see /openapi.json")
    }

    /// Creates a problem from a rejection by the server of another protocol, with its text.
    pub fn refused(status: StatusCode, why: impl Into<String>) -> Self {
        Self { detail: why.into(), ..Self::of_status(status) }
    }

    /// 405; the `Allow` header is added by the router.
    pub fn method_not_allowed() -> Self {
        let detail = "method not allowed for this path; see the Allow header";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
    }

    /// 408.
    pub fn body_timeout(after_ms: u64) -> Self {
        let detail = format!("the request body did not arrive within {after_ms} ms");
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", detail)
    }

    /// 403: a page of another origin sent a request that changes state.
    pub fn cross_origin() -> Self {
        let detail = "cross-origin request refused; the operator can allow the origin in server.cors_origins";
        Self::new(StatusCode::FORBIDDEN, "CROSS_ORIGIN", detail)
    }

    /// 408: the headers of the request were not received in time.
    pub fn headers_timeout(after: Duration) -> Self {
        let detail = format!("the request headers did not arrive within {} ms", after.as_millis());
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", detail)
    }

    /// 414 or 431: the request target or the headers are too large.
    pub fn head_too_large(status: StatusCode) -> Self {
        let detail = "the URL or the headers of the request are too large, or too many headers were sent";
        Self::new(status, "REQUEST_HEAD_TOO_LARGE", detail)
    }

    /// 400: the received bytes are not valid HTTP/1.1.
    pub fn malformed_http() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", "the request is not valid HTTP/1.1")
    }

    /// 409.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 412.
    pub fn precondition_failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "PRECONDITION_FAILED", detail)
    }

    /// 401: the call token is missing, or belongs to another call.
    pub fn wrong_token() -> Self {
        let detail = "this endpoint requires the `token` that was sent to the tool with the call";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", detail).challenging("Bearer")
    }

    /// 401: the request has no credentials.
    pub fn missing_key() -> Self {
        let detail =
            "authentication required: send `Authorization: Bearer tp_…`; create a key with `toolpost keys create`";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", detail).challenging("Bearer")
    }

    /// 401: the credentials are invalid.
    pub fn invalid_key(reason: &str) -> Self {
        let problem = Self::new(StatusCode::UNAUTHORIZED, "INVALID_KEY", reason);
        problem.challenging("Bearer error=\"invalid_token\"")
    }

    /// 403: the key has none of these scopes.
    pub fn scope_missing(scopes: Scopes) -> Self {
        let names: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
        let detail = format!("a key with the scope `{}` is required", names.join("` or `"));
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", names.join(" "));
        Self::new(StatusCode::FORBIDDEN, "SCOPE_MISSING", detail).challenging(&challenge)
    }

    /// 403: the caller lacks the permission.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
    }

    /// 429.
    pub fn too_many_requests(what: &str, retry_after_s: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", what);
        Self { retry_after_s: Some(retry_after_s), ..problem }
    }

    /// 429: the tenant has reached its quota of this resource.
    pub fn quota(what: QuotaResource, most: u32) -> Self {
        let code = match what {
            QuotaResource::Tool => "TOO_MANY_TOOLS",
            QuotaResource::Group => "TOO_MANY_GROUPS",
            QuotaResource::Hook => "TOO_MANY_HOOKS",
            QuotaResource::Session => "TOO_MANY_SESSIONS",
            QuotaResource::Key => "TOO_MANY_KEYS",
        };
        let way_out = if what == QuotaResource::Key { "revoke" } else { "delete" };
        let detail = format!("the limit of {most} {} is reached; {way_out} one first", what.words());
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail);
        Self { retry_after_s: Some(QUOTA_RETRY_AFTER_S), ..problem }
    }

    /// 429: the caller has reached its limit of open event streams.
    pub fn too_many_streams(what: &str, retry_after_s: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_STREAMS", what);
        Self { retry_after_s: Some(retry_after_s), ..problem }
    }

    /// 503: the service has reached its limit of open event streams.
    pub fn no_room_for_streams() -> Self {
        Self::unavailable("OVERLOADED", "too many event streams are open; nothing was accepted, retry later")
    }

    /// Adds the challenge: the credentials that the request requires (RFC 6750, section 3).
    fn challenging(self, challenge: &str) -> Self {
        self.with(header::WWW_AUTHENTICATE, challenge)
    }

    fn with(self, name: HeaderName, value: &str) -> Self {
        let header = HeaderValue::from_str(value).ok().map(|value| Box::new((name, value)));
        Self { header, ..self }
    }

    /// 422: the idempotency key belongs to a different request.
    pub fn key_reused(pointer: &str) -> Self {
        let detail = "the idempotency key was already used for a different request; use a new key";
        let errors = vec![FieldError { pointer: pointer.to_owned(), message: detail.to_owned() }];
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED", detail) }
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the request body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 413: the decoded body exceeds the memory for all decoded requests together.
    pub fn too_heavy() -> Self {
        let detail = "the decoded request body exceeds the memory available for all requests together";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 413: the request has more calls than allowed.
    pub fn batch_too_large(pointer: &str, most: usize, found: usize) -> Self {
        let detail = format!("a request can have at most {most} calls, got {found}; send several requests");
        let errors = vec![FieldError { pointer: pointer.to_owned(), message: detail.clone() }];
        Self { errors, ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BATCH_TOO_LARGE", detail) }
    }

    /// 413: incrementally sent arguments are too large.
    pub fn arguments_too_large(limit: usize) -> Self {
        let detail = format!("the arguments are larger than {limit} bytes; the chunk was not accepted");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 421: another node runs the call.
    pub fn misdirected(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "WRONG_NODE", detail)
    }

    /// 416.
    pub fn range_not_satisfiable(length: usize) -> Self {
        let detail = format!("the range is outside the {length} bytes of the body");
        let problem = Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", detail);
        Self { length: Some(length), ..problem }
    }

    /// 415.
    pub fn not_json(found: &str) -> Self {
        let found = if found.is_empty() { "none" } else { found };
        let detail = format!("the Content-Type must be application/json, not {found}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
    }

    /// 415: the body has a `Content-Encoding`.
    pub fn encoded(coding: &str) -> Self {
        let detail = format!("the Content-Encoding {coding} is not supported; send the body unencoded");
        let problem = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail);
        problem.with(header::ACCEPT_ENCODING, "identity")
    }

    /// 415 of a route that also accepts YAML.
    pub fn neither_json_nor_yaml(found: Option<&HeaderValue>) -> Self {
        let found = found.map_or("none", |value| value.to_str().unwrap_or("?"));
        let detail = format!("the Content-Type must be application/json or application/yaml, not {found}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
    }

    /// 503: too many documents are being imported.
    pub fn imports_busy() -> Self {
        Self::unavailable("OVERLOADED", "other documents are being imported; nothing was imported, retry later")
    }

    /// 500: an internal error. The response contains no details.
    pub fn internal() -> Self {
        let detail = "internal error; search the service log for the request_id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
    }

    /// 503: too many calls are in flight.
    pub fn overloaded() -> Self {
        let detail = "too many calls are in flight; no call was accepted, retry later";
        Self::unavailable("OVERLOADED", detail)
    }

    /// 503: the memory for request bodies is exhausted.
    pub fn no_room() -> Self {
        Self::unavailable("OVERLOADED", "the memory for request bodies is exhausted; nothing was accepted, retry later")
    }

    /// 503: too many connections are open.
    pub fn too_many_connections() -> Self {
        Self::unavailable("OVERLOADED", "too many connections are open; the request was not read, retry later")
    }

    /// 503: too many reports of this call are not yet recorded.
    pub fn report_backlog_full() -> Self {
        let detail = "too many reports of this call are not yet recorded; this report was not accepted, retry later";
        Self::unavailable("OVERLOADED", detail)
    }

    /// 503: the database is unavailable.
    pub fn store_unavailable(detail: impl Into<String>) -> Self {
        Self::unavailable("STORE_UNAVAILABLE", detail)
    }

    /// 503: the token cannot be verified because its issuer is unavailable.
    pub fn issuer_unavailable(detail: &str) -> Self {
        Self::unavailable("ISSUER_UNAVAILABLE", detail)
    }

    /// 503: the service is shutting down.
    pub fn shutting_down() -> Self {
        Self::unavailable("SHUTTING_DOWN", "the service is shutting down; no call was accepted")
    }

    fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        Self { retry_after_s: Some(RETRY_AFTER_S), ..problem }
    }

    /// Adds a `Location` header: where to find the requested resource.
    pub fn at(self, location: String) -> Self {
        self.with(header::LOCATION, &location)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::TooMany { what, most } = error {
            return Self::quota(what, most);
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

impl From<Vec<Fault>> for Problem {
    fn from(faults: Vec<Fault>) -> Self {
        let field = |Fault { pointer, message }| FieldError { pointer, message };
        Self::invalid(faults.into_iter().map(field).collect())
    }
}

impl From<SubmitError> for Problem {
    fn from(refusal: SubmitError) -> Self {
        match refusal {
            SubmitError::Overloaded => Self::overloaded(),
            SubmitError::ShuttingDown => Self::shutting_down(),
            SubmitError::Store(error) => error.into(),
            SubmitError::Failed => Self::internal(),
        }
    }
}
