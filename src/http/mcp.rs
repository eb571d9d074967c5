//! `/mcp`: the Model Context Protocol over Streamable HTTP, with the bounds of every other route.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::AppState;
use super::calls::traceparent;
use super::extract;
use super::openapi_common::BodyErrors;
use super::problem::Problem;
use super::subscribers::{self, StreamLimits, StreamPermit};
use super::turns::Client;
use crate::app::App;
use crate::domain::schemas::described_as;
use crate::engine::Footprint;
use crate::mcp::{ClientContext, Endpoint, Server, Settings};

/// Longest refusal of the protocol's server that is repeated.
const LONGEST_REFUSAL: usize = 4096;

/// What answers `/mcp`.
pub(super) fn endpoint(app: &App, address: SocketAddr, closing: CancellationToken) -> Endpoint {
    let config = &app.config.mcp;
    let mut allowed_hosts = config.allowed_hosts.clone();
    if !address.ip().is_unspecified() {
        allowed_hosts.push(address.ip().to_string());
    }
    let public_url = url::Url::parse(&app.config.server.public_url).ok();
    allowed_hosts.extend(public_url.and_then(|url| url.host_str().map(str::to_owned)));
    let settings = Settings {
        allowed_hosts,
        // Pages that may use the whole service may use this, too.
        allowed_origins: [&config.allowed_origins[..], &app.config.server.cors_origins].concat(),
        sessions: config.sessions,
        max_body_bytes: app.config.server.max_body_bytes,
    };
    Endpoint::new(Server::new(app), app.engine.room().clone(), &settings, closing)
}

/// A request or a notification.
pub(super) enum JsonRpcMessage {}

described_as!(JsonRpcMessage as "JsonRpcMessage", [], {
    "type": "object", "description": "A message of JSON-RPC 2.0.", "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer"]}, "method": {"type": "string"},
        "params": {"type": "object"}
    }
});

/// An answer.
pub(super) enum JsonRpcAnswer {}

described_as!(JsonRpcAnswer as "JsonRpcAnswer", [], {
    "type": "object", "description": "What JSON-RPC 2.0 answers: a `result` or an `error`.", "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"}, "id": {"description": "That of the request, as it was."},
        "result": {"type": "object"},
        "error": {
            "type": "object", "required": ["code", "message"],
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}
        }
    }
});

/// A message to a client as an event.
pub(super) enum JsonRpcEvent {}

described_as!(JsonRpcEvent as "JsonRpcEvent", [], {
    "type": "object", "description": "A Server-Sent Event with a message of JSON-RPC.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}}
});

/// Speaks the Model Context Protocol (Streamable HTTP): one message of JSON-RPC 2.0.
///
/// Revision 2026-07-28 and those before it, told by the message: `tools/list`, `tools/call` with progress and cancellation,
/// `subscriptions/listen`, and tasks, whose ids are those of tool calls. A tool call that fails is a result with `isError`.
/// Answers are JSON, or a stream of events where there is more to tell. Clients before 2026-07-28 get a session with
/// `initialize` (`Mcp-Session-Id`), whose messages to the client are read with `GET` and which `DELETE` ends.
#[utoipa::path(post, path = "/mcp", operation_id = "mcp", tag = "mcp",
    request_body(content = JsonRpcMessage, example = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "docs", "version": "1.0.0"}}})),
    security(("api_key" = ["call"])),
    responses((status = 200, description = "The answer: a message of JSON-RPC, or messages as events",
            content((JsonRpcAnswer = "application/json"), (inline(JsonRpcEvent) = "text/event-stream"))),
        (status = 202, description = "A notification was taken"),
        BodyErrors,
        (status = 403, description = "The `Host` or the `Origin` is not one of the service's: see `allowed_hosts` and `allowed_origins` in the `[mcp]` section of the settings"),
        (status = 404, description = "There is no such session, or, as an error of JSON-RPC, no such method", body = JsonRpcAnswer),
        (status = 406, description = "`Accept` must have both application/json and text/event-stream"),
        (status = 422, description = "A message of a session without its id"),
        (status = 429, description = "`TOO_MANY_STREAMS` (`subscriptions/listen`): the caller reads as many as it may. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "`OVERLOADED` (`subscriptions/listen`): the limit on open streams is reached")))]
pub(super) async fn post(
    State(state): State<AppState>,
    seats: StreamLimits,
    client: Client,
    request: Request,
) -> Result<Response, Problem> {
    // The protocol's cancellation is that the client leaves.
    client.ends_request();
    let (parts, body) = request.into_parts();
    extract::check_content_type(&parts.headers)?;
    let (body, footprint) = extract::read(&parts.headers, body, &state, state.engine.room()).await?;
    // What a call tells of itself ends with it. A subscription is a stream as any other.
    let seat = is_subscription(&body).then(|| seats.take()).transpose()?;
    let caller =
        ClientContext { traceparent: traceparent(&parts.headers), bytes: body.len(), ..ClientContext::default() };
    let answer = told(state.mcp.answer(parts, body, caller, footprint).await).await?;
    Ok(subscribers::with_permit(seat, answer))
}

fn is_subscription(body: &[u8]) -> bool {
    const METHOD: &str = "subscriptions/listen";
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    // Most messages are not read twice.
    body.windows(METHOD.len()).any(|word| word == METHOD.as_bytes())
        && serde_json::from_slice::<Message>(body).is_ok_and(|message| message.method == METHOD)
}

/// The messages to the client of a session, for clients before revision 2026-07-28.
#[utoipa::path(get, path = "/mcp", operation_id = "mcp_stream", tag = "mcp",
    security(("api_key" = ["call"])),
    responses((status = 200, description = "Messages of JSON-RPC as events", content_type = "text/event-stream", body = inline(JsonRpcEvent)),
        (status = 403, description = "The `Host` or the `Origin` is not one of the service's"),
        (status = 404, description = "Unknown session"),
        (status = 405, description = "Without `Mcp-Session-Id` there is nothing to read"),
        (status = 406, description = "`Accept` must have text/event-stream"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "`OVERLOADED`: the limit on open streams is reached")))]
pub(super) async fn stream(state: State<AppState>, seat: StreamPermit, request: Request) -> Result<Response, Problem> {
    Ok(seat.attach_to(of_session(state, request).await?))
}

/// Ends a session, for clients before revision 2026-07-28.
#[utoipa::path(delete, path = "/mcp", operation_id = "mcp_end", tag = "mcp",
    security(("api_key" = ["call"])),
    responses((status = 200, description = "It has ended"),
        (status = 403, description = "The `Host` or the `Origin` is not one of the service's"),
        (status = 404, description = "Unknown session"),
        (status = 405, description = "Without `Mcp-Session-Id` there is nothing to end")))]
pub(super) async fn end(state: State<AppState>, request: Request) -> Result<Response, Problem> {
    of_session(state, request).await
}

async fn of_session(State(state): State<AppState>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let is_end = parts.method == Method::DELETE;
    let mut answer =
        told(state.mcp.answer(parts, Bytes::new(), ClientContext::default(), Footprint::default()).await).await?;
    if is_end && answer.status() == StatusCode::ACCEPTED {
        // It has ended, and some clients take nothing else for that.
        *answer.status_mut() = StatusCode::OK;
    }
    Ok(answer)
}

/// What the protocol's server refuses in plain words becomes a problem; errors of JSON-RPC stay what they are.
async fn told(answer: Response<Body>) -> Result<Response, Problem> {
    let status = answer.status();
    let is_json = answer.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    if is_json || status.is_success() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let words = Limited::new(body, LONGEST_REFUSAL).collect().await;
    let words = words.map(|words| String::from_utf8_lossy(&words.to_bytes()).into_owned()).unwrap_or_default();
    let problem = match status {
        StatusCode::FORBIDDEN => Problem::refused(
            status,
            format!("{words}: name it in the [mcp] section of the settings, in allowed_hosts or allowed_origins"),
        ),
        StatusCode::METHOD_NOT_ALLOWED => Problem::method_not_allowed(),
        // What went wrong inside is not told.
        status if status.is_server_error() => {
            tracing::error!(reason = words, "a message of MCP could not be answered");
            Problem::internal()
        }
        status => Problem::refused(status, words),
    };
    let mut response = problem.into_response();
    if let Some(allow) = parts.headers.get(ALLOW) {
        response.headers_mut().insert(ALLOW, allow.clone());
    }
    Ok(response)
}
