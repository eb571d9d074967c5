//! Streamable HTTP: access and sessions. Clients of 2026-07-28 have no session. Older clients get one with
//! `initialize`, because they use it to cancel calls and to receive notifications.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::disconnect::DisconnectTracker;
use super::{ClientContext, Server, listing};
use crate::access::Access;
use crate::domain::Tenant;
use crate::engine::{Footprint, MemoryBudget, SubmitError, Unread};

/// Idle timeout of a session. A running call without reports counts as idle; no call runs longer than this.
const IDLE: Duration = Duration::from_secs(3600);
/// Host names of this machine for local clients.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The header with the session id.
const SESSION: &str = "mcp-session-id";
/// The member of `_meta` with the protocol version (2026-07-28).
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The settings of the endpoint.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Allowed host names in addition to those of this machine; `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Allowed origins of web pages, in addition to those of the allowed hosts.
    pub allowed_origins: Vec<String>,
    /// Maximum number of sessions; 0 disables sessions.
    pub sessions: usize,
    /// Maximum size of a message, in bytes.
    pub max_body_bytes: usize,
}

/// The HTTP endpoint of the MCP server. Cheap to clone.
pub struct Endpoint<S = Server> {
    room: MemoryBudget,
    stateless: StreamableHttpService<S, NeverSessionManager>,
    stateful: StreamableHttpService<S, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    disconnects: DisconnectTracker,
    /// The owner of each session.
    owners: Arc<Mutex<HashMap<String, Owner>>>,
    max_sessions: usize,
}

/// The tenant and the id of the key; no key if authentication is disabled.
type Owner = (Tenant, Option<Uuid>);

impl<S> std::fmt::Debug for Endpoint<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Endpoint").field("max_sessions", &self.max_sessions).finish_non_exhaustive()
    }
}

impl<S: ServerHandler + Clone> Endpoint<S> {
    /// Creates an endpoint whose streams end when `closing` is cancelled.
    #[must_use]
    pub fn new(server: S, room: MemoryBudget, settings: &Settings, closing: CancellationToken) -> Self {
        let any_host = settings.allowed_hosts.iter().any(|host| host == "*");
        let hosts: Vec<String> =
            LOOPBACK.iter().map(|host| (*host).to_owned()).chain(settings.allowed_hosts.iter().cloned()).collect();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_allowed_origins(origins(&hosts, &settings.allowed_origins))
            .with_cancellation_token(closing)
            .with_max_request_body_bytes(settings.max_body_bytes);
        let config = if any_host { config.disable_allowed_hosts() } else { config.with_allowed_hosts(hosts) };
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        let (one, other) = (server.clone(), server);
        Self {
            room,
            stateless: StreamableHttpService::new(move || Ok(one.clone()), Arc::default(), config.clone()),
            stateful: StreamableHttpService::new(
                move || Ok(other.clone()),
                sessions.clone(),
                config.with_legacy_session_mode(true),
            ),
            sessions,
            disconnects: DisconnectTracker::default(),
            owners: Arc::default(),
            max_sessions: settings.sessions,
        }
    }

    /// Responds to one request, whose body has been read and counted.
    pub async fn answer(
        &self,
        mut parts: Parts,
        body: Bytes,
        mut caller: ClientContext,
        mut footprint: Footprint,
    ) -> Response<Body> {
        let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let owner = owner_of(&parts);
        if session.as_ref().is_some_and(|session| !self.is_of(session, &owner)) {
            // A session of another caller is reported as unknown, so the client starts a new one.
            return (StatusCode::NOT_FOUND, "unknown session").into_response();
        }
        if parts.method != Method::POST {
            if let Some(session) = session.as_deref().filter(|_| parts.headers.contains_key("last-event-id")) {
                self.disconnects.reconnected(session);
            }
            return self.within(session.is_some(), parts, body).await;
        }
        let mut message = match self.parse(&body, &mut footprint) {
            Ok(message) => message,
            Err((status, error)) => return refused(status, &Value::Null, &error),
        };
        caller.weight = footprint.weight;
        // rmcp parses the message again.
        let (method, id) = (message["method"].take(), message["id"].take());
        let begins = method == "initialize";
        if begins && is_modern(&message) {
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "initialize", None);
            return refused(StatusCode::NOT_FOUND, &id, &error);
        }
        drop(message);
        // At the limit, the client gets no session.
        let gets_one = begins && self.sessions.sessions.read().await.len() < self.max_sessions;
        let gone = caller.gone.clone();
        parts.extensions.insert(caller);
        let answer = self.within(session.is_some() || gets_one, parts, body).await;
        if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && !is_json(&answer) {
            // The body is valid JSON, but not a message.
            let error = ErrorData::invalid_request("the body is not a JSON-RPC 2.0 message", None);
            return refused(StatusCode::BAD_REQUEST, &id, &error);
        }
        if let Some(begun) = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).filter(|_| gets_one) {
            self.note_owner(begun, owner).await;
        }
        if method == "tools/list" {
            return listing::complete(answer).await;
        }
        match session {
            Some(session) if method == "tools/call" && answer.status().is_success() => {
                answer.map(|body| self.disconnects.watch(body, session, gone))
            }
            _ => answer,
        }
    }

    /// Parses a message, or returns the reason why it is refused.
    fn parse(&self, body: &Bytes, footprint: &mut Footprint) -> Result<Value, (StatusCode, ErrorData)> {
        match footprint.parse(&self.room, body) {
            Ok(message) if message.is_object() => Ok(message),
            Ok(_) => {
                let reason = "a message must be a single object; batches are not supported";
                Err((StatusCode::BAD_REQUEST, ErrorData::invalid_request(reason, None)))
            }
            Err(Unread::Json(error)) => {
                Err((StatusCode::BAD_REQUEST, ErrorData::new(ErrorCode::PARSE_ERROR, error.to_string(), None)))
            }
            Err(Unread::NoRoom(_)) => {
                Err((StatusCode::SERVICE_UNAVAILABLE, super::call::refused(SubmitError::Overloaded)))
            }
        }
    }

    fn is_of(&self, session: &str, owner: &Owner) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // The session manager rejects unknown sessions.
        owners.get(session).is_none_or(|known| known == owner)
    }

    async fn note_owner(&self, session: &str, owner: Owner) {
        let there = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes ended sessions, which bounds the map by the maximum number of sessions.
        if owners.len() >= self.max_sessions {
            owners.retain(|known, _| there.keys().any(|there| **there == **known));
        }
        owners.insert(session.to_owned(), owner);
    }

    async fn within(&self, session: bool, parts: Parts, body: Bytes) -> Response<Body> {
        let request = Request::from_parts(parts, Full::new(body));
        let answer: Response<BoxBody<Bytes, Infallible>> = if session && self.max_sessions > 0 {
            self.stateful.handle(request).await
        } else {
            self.stateless.handle(request).await
        };
        answer.map(Body::new)
    }
}

fn owner_of(parts: &Parts) -> Owner {
    let caller = parts.extensions.get::<Access>().map(Access::caller);
    caller.map_or_else(Owner::default, |caller| (caller.tenant.clone(), caller.key))
}

/// Returns the origins of web pages on these hosts, and the additional origins.
fn origins(hosts: &[String], more: &[String]) -> Vec<String> {
    let named = hosts.iter().filter(|host| *host != "*");
    let of_hosts = named.flat_map(|host| {
        let is_bare_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        let host = if is_bare_ipv6 { format!("[{host}]") } else { host.clone() };
        let any_port =
            if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) { "" } else { ":*" };
        ["http", "https"].map(|scheme| format!("{scheme}://{host}{any_port}"))
    });
    of_hosts.chain(more.iter().cloned()).collect()
}

/// Returns `true` if a message declares version 2026-07-28 or later, which has no `initialize`.
fn is_modern(message: &Value) -> bool {
    let version = message["params"]["_meta"][META_VERSION].as_str();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn is_json(answer: &Response<Body>) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Creates a JSON-RPC error response.
fn refused(status: StatusCode, id: &Value, error: &ErrorData) -> Response<Body> {
    let id = if id.is_string() || id.is_number() { id.clone() } else { Value::Null };
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_host_origins_are_allowed() {
        let hosts =
            ["localhost", "::1", "2001:db8:1:2:3:4:5:6", "tools.example.com", "a.example:8443", "*"].map(str::to_owned);
        let origins = origins(&hosts, &["https://app.example".to_owned()]);
        for origin in [
            "http://localhost:*",
            "https://[::1]:*",
            "http://[2001:db8:1:2:3:4:5:6]:*",
            "https://tools.example.com:*",
            "https://a.example:8443",
            "https://app.example",
        ] {
            assert!(origins.iter().any(|one| one == origin), "{origin} in {origins:?}");
        }
        assert!(!origins.iter().any(|one| one.contains("//*")), "{origins:?}");
    }

    #[test]
    fn era_of_a_message_is_detected() {
        let of = |version: &str| is_modern(&json!({"params": {"_meta": {META_VERSION: version}}}));
        assert!(of("2026-07-28") && !of("2025-11-25") && !is_modern(&json!({"params": 1})));
    }
}
