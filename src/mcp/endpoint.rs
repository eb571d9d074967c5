//! Streamable HTTP: who may ask, and which requests belong to a session. Clients of 2026-07-28 have none; older ones get
//! one with `initialize`, since they cancel calls and hear of changes through it.

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

/// How long a session may be silent. A call that runs and says nothing is silent too, and no call takes longer than this.
const IDLE: Duration = Duration::from_secs(3600);
/// Hosts under which a client on this machine knows it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Names the session of a request.
const SESSION: &str = "mcp-session-id";
/// Where a message says its version (2026-07-28).
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What the endpoint is told at its start.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Hosts under which it is known beside those of this machine; `*` is any.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, beside those of these hosts.
    pub allowed_origins: Vec<String>,
    /// Most sessions at once; 0 for none.
    pub sessions: usize,
    /// Largest message.
    pub max_body_bytes: usize,
}

/// Answers MCP over HTTP. Cheap to clone.
pub struct Endpoint<S = Server> {
    room: MemoryBudget,
    stateless: StreamableHttpService<S, NeverSessionManager>,
    stateful: StreamableHttpService<S, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    away: DisconnectTracker,
    /// Whose each session is.
    owners: Arc<Mutex<HashMap<String, Owner>>>,
    max_sessions: usize,
}

/// A tenant and the id of a key; none where the service is open.
type Owner = (Tenant, Option<Uuid>);

impl<S> std::fmt::Debug for Endpoint<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Endpoint").field("most_sessions", &self.max_sessions).finish_non_exhaustive()
    }
}

impl<S: ServerHandler + Clone> Endpoint<S> {
    /// An endpoint of this server, whose streams end when `closing` fires.
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
            away: DisconnectTracker::default(),
            owners: Arc::default(),
            max_sessions: settings.sessions,
        }
    }

    /// Answers one request of this caller, whose body is there, and counted.
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
            // Another caller's session is none: a client begins anew.
            return (StatusCode::NOT_FOUND, "there is no such session").into_response();
        }
        if parts.method != Method::POST {
            if let Some(session) = session.as_deref().filter(|_| parts.headers.contains_key("last-event-id")) {
                self.away.is_back(session);
            }
            return self.within(session.is_some(), parts, body).await;
        }
        let mut message = match footprint.parse(&self.room, &body) {
            Ok(message) => message,
            Err(Unread::Json(error)) => {
                let error = ErrorData::new(ErrorCode::PARSE_ERROR, error.to_string(), None);
                return refused(StatusCode::BAD_REQUEST, &Value::Null, &error);
            }
            Err(Unread::NoRoom(_)) => {
                let error = super::call::refused(SubmitError::Overloaded);
                return refused(StatusCode::SERVICE_UNAVAILABLE, &Value::Null, &error);
            }
        };
        caller.weight = footprint.weight;
        if !message.is_object() {
            let error = ErrorData::invalid_request("a message is one object; batches are not taken", None);
            return refused(StatusCode::BAD_REQUEST, &Value::Null, &error);
        }
        // What it asks for is read again by those who answer it.
        let (method, id) = (message["method"].take(), message["id"].take());
        let begins = method == "initialize";
        if begins && is_modern(&message) {
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "initialize", None);
            return refused(StatusCode::NOT_FOUND, &id, &error);
        }
        drop(message);
        // Where there is no room for one more, the client does without.
        let gets_one = begins && self.sessions.sessions.read().await.len() < self.max_sessions;
        let gone = caller.gone.clone();
        parts.extensions.insert(caller);
        let answer = self.within(session.is_some() || gets_one, parts, body).await;
        if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && !is_json(&answer) {
            // It is JSON, and no message.
            let error = ErrorData::invalid_request("the body is no message of JSON-RPC 2.0", None);
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
                answer.map(|body| self.away.watched(body, session, gone))
            }
            _ => answer,
        }
    }

    fn is_of(&self, session: &str, owner: &Owner) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // One that nobody knows is told so by those who keep them.
        owners.get(session).is_none_or(|known| known == owner)
    }

    async fn note_owner(&self, session: &str, owner: Owner) {
        let there = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten here, so there are never more than there may be sessions.
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

/// Web pages of these hosts, and these origins.
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

/// Whether a message says by itself that it is of 2026-07-28 or later, where there is no `initialize`.
fn is_modern(message: &Value) -> bool {
    let version = message["params"]["_meta"][META_VERSION].as_str();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn is_json(answer: &Response<Body>) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// An error of JSON-RPC.
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
