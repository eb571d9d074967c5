//! Responses that refuse a message.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use rmcp::ErrorData;
use serde_json::{Value, json};

/// Returns `true` for a response of JSON-RPC, and `false` for one of the transport.
pub(super) fn is_json(answer: &Response<Body>) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Creates a JSON-RPC error response.
pub(super) fn refused(status: StatusCode, id: &Value, error: &ErrorData) -> Response<Body> {
    let id = if id.is_string() || id.is_number() { id.clone() } else { Value::Null };
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
