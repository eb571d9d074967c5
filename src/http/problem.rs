//! A request that is not one: `application/problem+json` (RFC 9457). A tool call that fails is none of these.

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

/// Seconds after which a caller that was refused for want of room may come again.
const COME_AGAIN_S: u64 = 1;
/// The same where somebody has to delete something first, or a session has to be forgotten.
const SOMEBODY_MAKES_ROOM_S: u64 = 60;

/// What is wrong with a request, or with the service at this moment.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    retry_after_s: Option<u64>,
    /// Where to look instead, or what to show.
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// How long the body is of which a part was asked for that there is not.
    length: Option<usize>,
}

/// One field that is wrong.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// Where in the body (RFC 6901).
    pub pointer: String,
    /// What is wrong.
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

    /// 400: the body is no JSON.
    pub fn bad_json(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_JSON", reason)
    }

    /// 422: the body or the query does not have its shape.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] if one.pointer.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.pointer, one.message),
            many => format!("{} fields are wrong", many.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_REQUEST", detail) }
    }

    /// 422 with one field.
    pub fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.into(), message: message.into() }])
    }

    /// 400: the `Host` of the request.
    pub fn bad_host(fault: &str) -> Self {
        let detail = format!("the Host header {fault}; a request names its host exactly once");
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail)
    }

    /// 404.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", what)
    }

    /// An error that the framework answered by itself.
    pub fn of_status(status: StatusCode) -> Self {
        let code = match status {
            StatusCode::BAD_REQUEST => "INVALID_REQUEST",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            status if status.is_server_error() => "INTERNAL",
            _ => "REFUSED",
        };
        Self::new(status, code, "the request cannot be answered; /openapi.json lists what there is")
    }

    /// A request that another protocol's server has refused, in its words.
    pub fn refused(status: StatusCode, why: impl Into<String>) -> Self {
        Self { detail: why.into(), ..Self::of_status(status) }
    }

    /// 405; the `Allow` header is added by the router.
    pub fn method_not_allowed() -> Self {
        let detail = "this path does not answer this method; see the Allow header";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
    }

    /// 408.
    pub fn body_timeout(after_ms: u64) -> Self {
        let detail = format!("the request body did not arrive within {after_ms} ms");
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", detail)
    }

    /// 403: a page of another origin would change something.
    pub fn cross_origin() -> Self {
        let detail =
            "a page of another origin may not do this; the operator names origins that may in server.cors_origins";
        Self::new(StatusCode::FORBIDDEN, "CROSS_ORIGIN", detail)
    }

    /// 408: a request whose headers do not come to an end.
    pub fn headers_timeout(after: Duration) -> Self {
        let detail = format!("the request headers did not arrive within {} ms", after.as_millis());
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", detail)
    }

    /// 414 or 431: the address or the headers are too long.
    pub fn head_too_large(status: StatusCode) -> Self {
        let detail = "the address or the headers of the request are too large, or the headers too many";
        Self::new(status, "REQUEST_HEAD_TOO_LARGE", detail)
    }

    /// 400: what came is no HTTP/1.1.
    pub fn malformed_http() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", "this is no HTTP/1.1 request")
    }

    /// 409.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 412.
    pub fn precondition_failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "PRECONDITION_FAILED", detail)
    }

    /// 401: the token is not this call's, or is missing.
    pub fn wrong_token() -> Self {
        let detail = "this needs the call's own token, as its tool was sent it";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", detail).challenging("Bearer")
    }

    /// 401: nothing is shown.
    pub fn missing_key() -> Self {
        let detail = "this needs an API key: send `Authorization: Bearer tp_…`; `toolpost keys create` makes one";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", detail).challenging("Bearer")
    }

    /// 401: what is shown does not count.
    pub fn invalid_key(reason: &str) -> Self {
        let problem = Self::new(StatusCode::UNAUTHORIZED, "INVALID_KEY", reason);
        problem.challenging("Bearer error=\"invalid_token\"")
    }

    /// 403: the key lacks all of these scopes.
    pub fn scope_missing(scopes: Scopes) -> Self {
        let names: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
        let detail = format!("this needs a key with the scope `{}`", names.join("` or `"));
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", names.join(" "));
        Self::new(StatusCode::FORBIDDEN, "SCOPE_MISSING", detail).challenging(&challenge)
    }

    /// 403: not with this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
    }

    /// 429.
    pub fn too_many_requests(what: &str, retry_after_s: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", what);
        Self { retry_after_s: Some(retry_after_s), ..problem }
    }

    /// 429: the tenant has as many of these as it may have.
    pub fn quota(what: QuotaResource, most: u32) -> Self {
        let code = match what {
            QuotaResource::Tool => "TOO_MANY_TOOLS",
            QuotaResource::Group => "TOO_MANY_GROUPS",
            QuotaResource::Hook => "TOO_MANY_HOOKS",
            QuotaResource::Session => "TOO_MANY_SESSIONS",
            QuotaResource::Key => "TOO_MANY_KEYS",
        };
        let way_out = if what == QuotaResource::Key { "revoke" } else { "delete" };
        let detail = format!("there are {most} {}, and no more can be made; {way_out} one first", what.words());
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail);
        Self { retry_after_s: Some(SOMEBODY_MAKES_ROOM_S), ..problem }
    }

    /// 429: a caller reads as many event streams as it may.
    pub fn too_many_streams(what: &str, retry_after_s: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_STREAMS", what);
        Self { retry_after_s: Some(retry_after_s), ..problem }
    }

    /// 503: as many event streams are read as the service has room for.
    pub fn no_room_for_streams() -> Self {
        Self::unavailable("OVERLOADED", "too many event streams are open; nothing was accepted, try again")
    }

    /// Says what a caller has to show (RFC 6750, section 3).
    fn challenging(self, challenge: &str) -> Self {
        self.with(header::WWW_AUTHENTICATE, challenge)
    }

    fn with(self, name: HeaderName, value: &str) -> Self {
        let header = HeaderValue::from_str(value).ok().map(|value| Box::new((name, value)));
        Self { header, ..self }
    }

    /// 422: the idempotency key stands for another request.
    pub fn key_reused(pointer: &str) -> Self {
        let detail = "the key was used before for another request; take a new one for a new request";
        let errors = vec![FieldError { pointer: pointer.to_owned(), message: detail.to_owned() }];
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED", detail) }
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the request body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 413: small in text, and more than all the memory for requests as values.
    pub fn too_heavy() -> Self {
        let detail = "the values of the request body take more memory than all requests together may have";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 413: more calls than one request may have.
    pub fn batch_too_large(pointer: &str, most: usize, found: usize) -> Self {
        let detail = format!("a request has at most {most} calls, not {found}; send several requests");
        let errors = vec![FieldError { pointer: pointer.to_owned(), message: detail.clone() }];
        Self { errors, ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BATCH_TOO_LARGE", detail) }
    }

    /// 413: arguments that come piece by piece.
    pub fn arguments_too_large(limit: usize) -> Self {
        let detail = format!("the arguments are larger than {limit} bytes; the piece was not taken");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
    }

    /// 421: the call is another node's.
    pub fn misdirected(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "WRONG_NODE", detail)
    }

    /// 416.
    pub fn range_not_satisfiable(length: usize) -> Self {
        let detail = format!("the range is outside the {length} bytes that there are");
        let problem = Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", detail);
        Self { length: Some(length), ..problem }
    }

    /// 415.
    pub fn not_json(found: &str) -> Self {
        let found = if found.is_empty() { "none" } else { found };
        let detail = format!("the Content-Type must be application/json, not {found}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
    }

    /// 415: the body has a coding, which names itself in `Content-Encoding`.
    pub fn encoded(coding: &str) -> Self {
        let detail = format!("the Content-Encoding {coding} is not supported; send the body without one");
        let problem = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail);
        problem.with(header::ACCEPT_ENCODING, "identity")
    }

    /// 415 where YAML is taken, too.
    pub fn neither_json_nor_yaml(found: Option<&HeaderValue>) -> Self {
        let found = found.map_or("none", |value| value.to_str().unwrap_or("?"));
        let detail = format!("the Content-Type must be application/json or application/yaml, not {found}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
    }

    /// 503: other documents are being imported.
    pub fn imports_busy() -> Self {
        Self::unavailable("OVERLOADED", "other documents are being imported; nothing of this one was, try again")
    }

    /// 500: nothing about the inside is told.
    pub fn internal() -> Self {
        let detail = "the service failed; its log knows more under the request's id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
    }

    /// 503: there is no room.
    pub fn overloaded() -> Self {
        let detail = "too many calls are in flight; nothing was accepted, try again";
        Self::unavailable("OVERLOADED", detail)
    }

    /// 503: there is no memory for a body.
    pub fn no_room() -> Self {
        Self::unavailable("OVERLOADED", "there is no memory left for the request body; nothing was accepted, try again")
    }

    /// 503: no more connections are taken.
    pub fn too_many_connections() -> Self {
        Self::unavailable("OVERLOADED", "too many connections are open; nothing was read from this one, try again")
    }

    /// 503: this call cannot take more just now.
    pub fn report_backlog_full() -> Self {
        let detail = "too many reports of this call are not recorded yet; nothing of this one is shown, try again";
        Self::unavailable("OVERLOADED", detail)
    }

    /// 503: the database is away.
    pub fn store_unavailable(detail: impl Into<String>) -> Self {
        Self::unavailable("STORE_UNAVAILABLE", detail)
    }

    /// 503: whether a token counts cannot be found out.
    pub fn issuer_unavailable(detail: &str) -> Self {
        Self::unavailable("ISSUER_UNAVAILABLE", detail)
    }

    /// 503: the service is stopping.
    pub fn shutting_down() -> Self {
        Self::unavailable("SHUTTING_DOWN", "the service is stopping and takes no new calls; nothing was accepted")
    }

    fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        Self { retry_after_s: Some(COME_AGAIN_S), ..problem }
    }

    /// Says where what was asked for will be found after all.
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
            _ => Self::store_unavailable("the database is away; try again"),
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
