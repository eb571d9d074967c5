//! Errors of upstream servers: failures for calls, and messages for the operator.

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::json;
use url::Url;

use super::correlate::is_lost_session;
use super::link::Link;
use crate::executor::Redaction;
use crate::executor::http::Fault;
use toolpost_core::domain::{Failure, json};

/// Maximum length of a quoted error message, in characters.
const MAX_CHARS: usize = 1000;

/// Converts an error to the failure of a call. `url` is the address of an HTTP server.
pub fn failure(name: &str, error: ServiceError, url: Option<&Url>) -> Failure {
    match error {
        ServiceError::McpError(error) => refused(name, &error),
        ServiceError::TransportSend(error) => of_transport(&error, url).into_failure(name),
        ServiceError::TransportClosed => lost().into_failure(name),
        ServiceError::Cancelled { .. } => Failure::cancelled(),
        // rmcp's messages about unexpected responses are not suitable for a model.
        _ => Failure::execution(name, "the upstream server returned an invalid tool result"),
    }
}

/// Converts a JSON-RPC error of the server.
fn refused(name: &str, error: &ErrorData) -> Failure {
    let message = json::shorten(&error.message, MAX_CHARS);
    let code = error.code.0;
    let mut details = json!({ "mcp_code": code });
    if let Some(data) = error.data.as_ref().filter(|data| data.to_string().len() <= 4 * MAX_CHARS) {
        details["mcp_data"] = data.clone();
    }
    Failure::execution(name, format!("{message} (MCP error {code})")).with_details(details)
}

fn lost() -> Fault {
    Fault { retryable: true, ..Fault::terminal("the connection to its server was lost before it responded") }
}

/// Returns `true` if the connection can no longer be used.
pub fn is_broken(error: &ServiceError) -> bool {
    matches!(error, ServiceError::TransportSend(_) | ServiceError::TransportClosed)
}

/// Returns `true` if the server may have lost the session. The text of an error may be about something else.
pub fn may_be_lost_session(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if is_lost_session(error))
}

fn of_transport(error: &DynamicTransportError, url: Option<&Url>) -> Fault {
    match (error.error.downcast_ref(), url) {
        (Some(http), Some(url)) => of_http(http, url),
        _ => lost(),
    }
}

fn of_http(error: &StreamableHttpError<reqwest::Error>, url: &Url) -> Fault {
    match error {
        StreamableHttpError::Client(error) => Fault::of_request(error, url),
        StreamableHttpError::HttpStatus(status) => {
            let seconds = status.retry_after.as_deref().and_then(|seconds| seconds.trim().parse::<u64>().ok());
            Fault {
                retryable: true,
                retry_after_ms: seconds.map(|seconds| seconds.saturating_mul(1000)),
                ..Fault::terminal(format!("its server answered HTTP {}", status.status))
            }
        }
        StreamableHttpError::AuthRequired(_) => {
            Fault::terminal("its server answered HTTP 401: authorization is required")
        }
        StreamableHttpError::InsufficientScope(_) => {
            Fault::terminal("its server answered HTTP 403: the authorization is insufficient")
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            Fault::terminal(format!("its response is larger than {max_size} bytes (16 MiB)"))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => Fault::terminal(json::shorten(text, MAX_CHARS)),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("no content type");
            Fault::terminal(format!(
                "its server answered neither JSON nor an event stream: {}",
                json::shorten(kind, 100)
            ))
        }
        StreamableHttpError::SessionExpired => {
            Fault { retryable: true, ..Fault::terminal("its server refuses the session, also a new one") }
        }
        StreamableHttpError::ReinitializationFailed(error) => {
            let reason = json::shorten(&error.message, MAX_CHARS);
            Fault { retryable: true, ..Fault::terminal(format!("its server refuses a new session: {reason}")) }
        }
        StreamableHttpError::Deserialize(_) => Fault::terminal("its server answered with an invalid message"),
        _ => lost(),
    }
}

/// Returns the message for a failed connection, and whether the older handshake may succeed.
pub fn of_start(error: &ClientInitializeError, url: Option<&Url>) -> (String, bool) {
    match error {
        ClientInitializeError::TransportError { error, .. } => match (error.error.downcast_ref(), url) {
            (Some(StreamableHttpError::Client(error)), Some(url)) => (Fault::of_request(error, url).message, false),
            (
                Some(http @ (StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_))),
                Some(url),
            ) => (of_http(http, url).message, false),
            (Some(http), Some(url)) => (of_http(http, url).message, true),
            _ => ("the connection was lost during the handshake".to_owned(), true),
        },
        ClientInitializeError::ConnectionClosed(_) => {
            ("it closed the connection during the handshake".to_owned(), true)
        }
        ClientInitializeError::JsonRpcError(error) => {
            (format!("it refused the connection: {}", json::shorten(&error.message, MAX_CHARS)), true)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported.iter().take(10).map(|version| version.as_str()).collect();
            (format!("its protocol versions are not supported by this service: {}", versions.join(", ")), true)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => (of_start(fallback, url).0, false),
        _ => ("it did not answer like an MCP server".to_owned(), true),
    }
}

/// Returns the redacted message of an error, for the operator.
pub fn message(error: ServiceError, link: &Link) -> String {
    let reason = match error {
        ServiceError::Timeout { timeout } => format!("it did not answer within {} ms", timeout.as_millis()),
        error => failure("", error, link.url.as_ref()).message,
    };
    Redaction::apply(link.redaction.as_deref(), reason)
}
