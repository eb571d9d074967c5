//! `/mcp`: the Model Context Protocol over Streamable HTTP, with the limits of every other route.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::extract;
use super::hosts::AllowedHosts;
use super::request_headers::traceparent;
use super::requests::Client;
use super::responses::UnknownSession;
use super::subscribers::{self, StreamLimits, StreamPermit};
use super::{AppState, BodyErrors, HttpResult, Problem, reply};
use crate::app::App;
use crate::mcp::{Answer, ClientContext, Endpoint, FastPath, Server, Settings};
use crate::memory::Footprint;
use toolpost_core::described_as;

/// Maximum size of an error text of the MCP server that is passed on, in bytes.
const MAX_REJECTION_BYTES: usize = 4096;

/// The endpoints behind `/mcp`.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// Answers the most frequent requests.
    fast_path: FastPath,
    /// Answers all others.
    all: Endpoint,
    /// The hosts under which clients may reach them.
    pub hosts: AllowedHosts,
}

/// Creates the endpoints that serve `/mcp`.
pub(super) fn endpoints(app: &App, address: SocketAddr, closing: CancellationToken) -> Endpoints {
    let config = &app.config.mcp;
    let mut allowed_hosts = config.allowed_hosts.clone();
    if !address.ip().is_unspecified() {
        allowed_hosts.push(address.ip().to_string());
    }
    let public_url = url::Url::parse(&app.config.server.public_url).ok();
    allowed_hosts.extend(public_url.and_then(|url| url.host_str().map(str::to_owned)));
    let settings = Settings {
        allowed_hosts,
        // Origins that may use the API may also use this endpoint.
        allowed_origins: [&config.allowed_origins[..], &app.config.server.cors_origins].concat(),
        sessions: config.sessions,
    };
    let server = Server::new(app);
    let fast_path = FastPath::new(server.clone());
    let all = Endpoint::new(server, app, &settings, closing);
    tokio::spawn(all.follow_notices());
    Endpoints { fast_path, all, hosts: AllowedHosts::new(&settings) }
}

/// A request or a notification.
pub(super) enum JsonRpcMessage {}

described_as!(JsonRpcMessage as "JsonRpcMessage", [], {
    "type": "object", "description": "A JSON-RPC 2.0 message.", "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer"]}, "method": {"type": "string"},
        "params": {"type": "object"}
    }
});

/// A response.
pub(super) enum JsonRpcAnswer {}

described_as!(JsonRpcAnswer as "JsonRpcAnswer", [], {
    "type": "object", "description": "A JSON-RPC 2.0 response: a `result` or an `error`.", "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"}, "id": {"description": "The id of the request, unchanged."},
        "result": {"type": "object"},
        "error": {
            "type": "object", "required": ["code", "message"],
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}
        }
    }
});

/// A response, or the responses to a batch, which clients before 2025-06-18 may send.
pub(super) enum JsonRpcAnswers {}

described_as!(JsonRpcAnswers as "JsonRpcAnswers", [JsonRpcAnswer], {
    "anyOf": [
        {"$ref": "#/components/schemas/JsonRpcAnswer"},
        {"type": "array", "items": {"$ref": "#/components/schemas/JsonRpcAnswer"}}
    ]
});

/// A message to a client, sent as an event.
pub(super) enum JsonRpcEvent {}

described_as!(JsonRpcEvent as "JsonRpcEvent", [], {
    "type": "object", "description": "A Server-Sent Event with a JSON-RPC message.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}}
});

/// Speaks the Model Context Protocol (Streamable HTTP): one JSON-RPC 2.0 message per request.
///
/// Supports revision 2026-07-28 and earlier ones, detected from the message: `tools/list`, `tools/call` with progress
/// and cancellation, `subscriptions/listen`, and tasks, whose ids are call ids. A failed tool call is a result with
/// `isError`. Responses are JSON, or an event stream if there is more than one message, in a form that `Accept` allows;
/// without `Accept`, both are allowed. Clients before 2026-07-28 open
/// a session with `initialize` (`Mcp-Session-Id`). They read its messages with `GET` and end it with `DELETE`.
#[utoipa::path(post, path = "/mcp", operation_id = "mcp", tag = "mcp",
    request_body(content = JsonRpcMessage, example = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "docs", "version": "1.0.0"}}})),
    security(("api_key" = ["call"])),
    responses((status = 200, description = "A JSON-RPC message, or messages as events",
            content((JsonRpcAnswers = "application/json"), (inline(JsonRpcEvent) = "text/event-stream"))),
        (status = 202, description = "The notification was accepted"),
        (status = 403, description = "The `Host` or the `Origin` is not allowed; see `allowed_hosts` and \
            `allowed_origins` in the `[mcp]` section of the settings"),
        (status = 404, description = "Unknown session or, as a JSON-RPC error, unknown method", body = JsonRpcAnswer),
        (status = 406, description = "`Accept` allows neither application/json nor text/event-stream, or no \
            event stream for `subscriptions/listen`"),
        (status = 422, description = "The message belongs to a session but lacks the session id"),
        (status = 429, description = "`TOO_MANY_STREAMS` (`subscriptions/listen`): the caller has reached its limit of \
            open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "`OVERLOADED` (`subscriptions/listen`): the limit on open streams is reached"),
        BodyErrors,
        (status = 400, description = "The message is not JSON-RPC, or the body is not JSON", body = JsonRpcAnswer)))]
pub(super) async fn post(
    State(state): State<AppState>,
    limits: StreamLimits,
    client: Client,
    request: Request,
) -> HttpResult {
    // In this protocol, a client cancels a request by closing the connection.
    client.ends_request();
    let (parts, body) = request.into_parts();
    extract::check_content_type(&parts.headers)?;
    let (body, mut footprint) = extract::read(&parts.headers, body, &state, state.engine.memory()).await?;
    let traceparent = traceparent(&parts.headers);
    if let Some(request) = state.mcp.fast_path.read(&parts, &body, &mut footprint) {
        drop((parts, body));
        let Answer { json, counted } = state.mcp.fast_path.answer(request, footprint, traceparent).await;
        return Ok(reply::pieces(StatusCode::OK, Ok(json), counted));
    }
    let caller = ClientContext { traceparent, bytes: body.len(), ..ClientContext::default() };
    // Boxed because a future is as large as its largest branch.
    Box::pin(answer_by_rmcp(state, limits, parts, body, caller, footprint)).await
}

async fn answer_by_rmcp(
    state: AppState,
    limits: StreamLimits,
    parts: Parts,
    body: Bytes,
    caller: ClientContext,
    footprint: Footprint,
) -> HttpResult {
    // Streams of calls end with the call and need no permit. A subscription counts as an open stream.
    let permit = is_subscription(&body).then(|| limits.take()).transpose()?;
    let answer = convert_rejection(state.mcp.all.answer(parts, body, caller, footprint).await).await?;
    Ok(subscribers::with_permit(permit, answer))
}

fn is_subscription(body: &[u8]) -> bool {
    const METHOD: &str = "subscriptions/listen";
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    // The search avoids parsing most messages twice.
    body.windows(METHOD.len()).any(|word| word == METHOD.as_bytes())
        && serde_json::from_slice::<Message>(body).is_ok_and(|message| message.method == METHOD)
}

/// Streams the messages of a session to its client, for clients before revision 2026-07-28.
#[utoipa::path(get, path = "/mcp", operation_id = "mcp_stream", tag = "mcp",
    security(("api_key" = ["call"])),
    responses((status = 200, description = "JSON-RPC messages as events", content_type = "text/event-stream", body = inline(JsonRpcEvent)),
        (status = 403, description = "The `Host` or the `Origin` is not allowed"),
        (status = 405, description = "`Mcp-Session-Id` is missing"),
        (status = 406, description = "`Accept` does not allow text/event-stream"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "`OVERLOADED`: the limit on open streams is reached"), UnknownSession))]
pub(super) async fn stream(state: State<AppState>, permit: StreamPermit, request: Request) -> HttpResult {
    Ok(permit.attach_to(answer_session_request(state, request).await?))
}

/// Ends a session, for clients before revision 2026-07-28.
#[utoipa::path(delete, path = "/mcp", operation_id = "mcp_end", tag = "mcp",
    security(("api_key" = ["call"])),
    responses((status = 200, description = "The session has ended"),
        (status = 403, description = "The `Host` or the `Origin` is not allowed"),
        (status = 405, description = "`Mcp-Session-Id` is missing"), UnknownSession))]
pub(super) async fn end(state: State<AppState>, request: Request) -> HttpResult {
    answer_session_request(state, request).await
}

async fn answer_session_request(State(state): State<AppState>, request: Request) -> HttpResult {
    let (parts, _) = request.into_parts();
    let is_end = parts.method == Method::DELETE;
    let mut answer = convert_rejection(
        state.mcp.all.answer(parts, Bytes::new(), ClientContext::default(), Footprint::default()).await,
    )
    .await?;
    if is_end && answer.status() == StatusCode::ACCEPTED {
        // Some clients accept only 200 here.
        *answer.status_mut() = StatusCode::OK;
    }
    Ok(answer)
}

/// Converts a plain-text rejection by the MCP server to a problem. JSON-RPC errors are returned unchanged.
async fn convert_rejection(answer: Response<Body>) -> HttpResult {
    let status = answer.status();
    let is_json = answer.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    if is_json || status.is_success() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let words = Limited::new(body, MAX_REJECTION_BYTES).collect().await;
    let words = words.map(|words| String::from_utf8_lossy(&words.to_bytes()).into_owned()).unwrap_or_default();
    let problem = match status {
        StatusCode::FORBIDDEN => Problem::refused(
            status,
            format!("{words}: add it to allowed_hosts or allowed_origins in the [mcp] section of the settings"),
        ),
        StatusCode::METHOD_NOT_ALLOWED => Problem::method_not_allowed(),
        // Internal errors are logged and not returned to the client.
        status if status.is_server_error() => {
            tracing::error!(reason = words, "cannot answer an MCP message");
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
