//! Streamable HTTP: access and sessions. Clients of 2026-07-28 have no session. Older clients get one with
//! `initialize`, because they use it to cancel calls and to receive notifications. Any node serves any session.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
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

use super::accepted::{AcceptedForms, takes_batches};
use super::call::{RETRY_LATER, refused as not_submitted};
use super::disconnect::{self, CallStream};
use super::event_id::{EventId, PendingRequest};
use super::refusal::{is_json, refused};
use super::sessions::{CLIENT, Sessions, StreamClient};
use super::settings::Settings;
use super::shared::{Owner, SharedState, StoredSessions};
use super::{ClientContext, Server, listing};
use crate::access::Access;
use crate::app::App;
use crate::domain::Tenant;
use crate::engine::SubmitError;
use crate::memory::{Footprint, MemoryBudget, Unread};
use crate::store::mcp_sessions::IDLE;

/// The header with the session id.
const SESSION: &str = "mcp-session-id";
/// The header with the id of the last event that a client received.
const LAST_EVENT: &str = "last-event-id";
/// The member of `_meta` with the protocol version (2026-07-28).
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The request for notifications, whose response is a stream without an end.
const LISTEN: &str = "subscriptions/listen";
const EVENTS: &str = "text/event-stream";
/// The notification with which a client cancels a request.
const CANCELLED: &str = "notifications/cancelled";

/// The HTTP endpoint of the MCP server. Cheap to clone.
pub struct Endpoint<S = Server> {
    memory_budget: MemoryBudget,
    stateless: StreamableHttpService<S, NeverSessionManager>,
    stateful: StreamableHttpService<S, Sessions>,
    sessions: Arc<Sessions>,
    state: Arc<SharedState>,
    max_sessions: usize,
}

impl<S> std::fmt::Debug for Endpoint<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Endpoint").field("max_sessions", &self.max_sessions).finish_non_exhaustive()
    }
}

impl<S: ServerHandler + Clone> Endpoint<S> {
    /// Creates an endpoint of a service, whose streams end when `closing` is cancelled.
    #[must_use]
    pub fn new(server: S, app: &App, settings: &Settings, closing: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_allowed_origins(settings.origins())
            .with_cancellation_token(closing.clone())
            // The layers in front of all routes check the `Host` and limit bodies.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX);
        let state = Arc::new(SharedState::new(app, settings.sessions, closing));
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(Sessions::new(local, state.clone()));
        let mut with_sessions = config.clone().with_legacy_session_mode(true);
        with_sessions.session_store = Some(Arc::new(StoredSessions(state.clone())));
        let (one, other) = (server.clone(), server);
        Self {
            memory_budget: app.engine.memory().clone(),
            stateless: StreamableHttpService::new(move || Ok(one.clone()), Arc::default(), config),
            stateful: StreamableHttpService::new(move || Ok(other.clone()), sessions.clone(), with_sessions),
            sessions,
            state,
            max_sessions: settings.sessions,
        }
    }

    /// Applies what clients tell other nodes about the sessions of this one, until the endpoint closes.
    pub fn follow_notices(&self) -> impl Future<Output = ()> + Send + 'static {
        let sessions = self.sessions.clone();
        async move { sessions.follow_notices().await }
    }

    /// Responds to one request, whose body has been read and counted.
    pub async fn answer(
        &self,
        mut parts: Parts,
        body: Bytes,
        mut caller: ClientContext,
        mut footprint: Footprint,
    ) -> Response<Body> {
        let session = header(&parts, SESSION);
        let owner = owner_of(&parts);
        if let Some(session) = session.as_deref().filter(|_| self.max_sessions > 0) {
            match self.state.is_of(session, &owner).await {
                Ok(true) => {}
                Ok(false) => return self.unknown_session(session).await,
                Err(_) => return unavailable(&Value::Null),
            }
        }
        let accepted = AcceptedForms::of(&parts.headers);
        if parts.method != Method::POST {
            accepted.widen(&mut parts.headers, true);
            return self.answer_without_message(parts, session, owner).await;
        }
        if accepted.is_neither() {
            return not_acceptable("application/json or text/event-stream");
        }
        accepted.widen(&mut parts.headers, false);
        let message = match self.parse(&body, &mut footprint) {
            Ok(message) => message,
            Err((status, error)) => return refused(status, &Value::Null, &error),
        };
        caller.weight = footprint.weight;
        let message = match message {
            Value::Array(messages) if takes_batches(&parts.headers) => {
                let answer = self.answer_batch(parts, messages, caller, session, owner).await;
                return accepted.convert(answer, &Value::Null).await;
            }
            Value::Object(_) => message,
            _ => {
                let reason = "a message must be a single object";
                return refused(StatusCode::BAD_REQUEST, &Value::Null, &ErrorData::invalid_request(reason, None));
            }
        };
        let message = self.outline(message, session.is_some());
        if message.method == LISTEN && !accepted.events {
            return not_acceptable(EVENTS);
        }
        let id = message.id.clone();
        let answer = self.answer_message(parts, body, caller, message, session, owner).await;
        accepted.convert(answer, &id).await
    }

    /// Responds to one message.
    pub(super) async fn answer_message(
        &self,
        mut parts: Parts,
        body: Bytes,
        mut caller: ClientContext,
        mut message: Outline,
        session: Option<String>,
        owner: Owner,
    ) -> Response<Body> {
        if message.is_initialize() && message.is_modern {
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "initialize", None);
            return refused(StatusCode::NOT_FOUND, &message.id, &error);
        }
        caller.call = message.call;
        let is_kept = match session.as_deref() {
            Some(session) => self.sessions.is_here(session).await || self.can_add_session().await,
            // At the limit, the client gets no session.
            None => message.is_initialize() && self.can_add_session().await,
        };
        parts.extensions.insert(caller);
        let is_elsewhere = message.method == CANCELLED && !session.as_deref().is_some_and(|s| self.runs(s, &message));
        let answer = self.within(is_kept, parts, body, message.pending()).await;
        if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && !is_json(&answer) {
            // The body is valid JSON, but not a message.
            let error = ErrorData::invalid_request("the body is not a JSON-RPC 2.0 message", None);
            return refused(StatusCode::BAD_REQUEST, &message.id, &error);
        }
        if message.method == "tools/list" {
            return listing::complete(answer).await;
        }
        if message.is_initialize() {
            return self.begin(answer, &message, owner).await;
        }
        match session.filter(|_| is_kept && answer.status().is_success()) {
            Some(session) if is_elsewhere => {
                let request = message.params.get_mut("requestId").map(Value::take).unwrap_or_default();
                self.state.tell_cancelled(&session, request).await;
                answer
            }
            Some(session) => self.share(answer, &message, session, owner.0),
            None => answer,
        }
    }

    /// Takes the parts of a message that the endpoint uses; rmcp parses the message again.
    pub(super) fn outline(&self, mut message: Value, has_session: bool) -> Outline {
        let is_modern = is_modern(&message);
        let (method, id) = (message["method"].take(), message["id"].take());
        let is_call = has_session && method == "tools/call";
        let call = is_call.then(|| self.state.engine.ids(1)).and_then(|ids| ids.first().copied());
        let token = message.pointer_mut("/params/_meta/progressToken").filter(|_| call.is_some());
        let token = token.map(Value::take).unwrap_or_default();
        let uses_params = method == "initialize" || method == CANCELLED;
        let params = if uses_params { message["params"].take() } else { Value::Null };
        Outline { method, id, params, token, call, is_modern }
    }

    /// Records the session that a response to `initialize` begins.
    async fn begin(&self, answer: Response<Body>, message: &Outline, owner: Owner) -> Response<Body> {
        let Some(session) = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()) else { return answer };
        match self.state.begin(session, owner, &message.params).await {
            Ok(()) => {
                self.sessions.note_ready(session).await;
                answer
            }
            Err(_) => {
                self.sessions.end(session.into()).await;
                unavailable(&message.id)
            }
        }
    }

    /// Returns `true` if the request that a cancellation names runs on this node.
    fn runs(&self, session: &str, cancellation: &Outline) -> bool {
        self.sessions.running.has(session, &cancellation.params["requestId"])
    }

    /// Watches the stream of a call of a session.
    fn share(&self, answer: Response<Body>, message: &Outline, session: String, tenant: Tenant) -> Response<Body> {
        let Some(call) = message.call else { return answer };
        self.watched(answer, CallStream { tenant, access: None, session, call, resumed: 0 })
    }

    /// Responds to a `GET` or a `DELETE`.
    async fn answer_without_message(&self, parts: Parts, session: Option<String>, owner: Owner) -> Response<Body> {
        let last = header(&parts, LAST_EVENT).filter(|_| parts.method == Method::GET);
        let request = last.and_then(|last| EventId::read(&last)).and_then(|last| last.request);
        let access = parts.extensions.get::<Access>().cloned();
        let answer = self.within(session.is_some(), parts, Bytes::new(), None).await;
        let (Some(session), Some(PendingRequest { call: Some(call), .. })) = (session, request) else {
            return answer;
        };
        if !answer.status().is_success() {
            return answer;
        }
        // If the database fails, the call is not cancelled when this stream breaks.
        let Ok(resumed) = self.state.resume(call).await else { return answer };
        self.watched(answer, CallStream { tenant: owner.0, access, session, call, resumed })
    }

    /// Wraps the stream of a call, which is cancelled if its client is lost.
    fn watched(&self, answer: Response<Body>, stream: CallStream) -> Response<Body> {
        answer.map(|body| disconnect::watch(body, stream, self.state.clone()))
    }

    /// Reports a session of another caller as unknown, like one that has ended, so that the client starts a new one.
    async fn unknown_session(&self, session: &str) -> Response<Body> {
        if matches!(self.state.stores.has_mcp_session(session).await, Ok(false)) {
            self.sessions.end(session.into()).await;
        }
        (StatusCode::NOT_FOUND, "unknown session").into_response()
    }

    /// Returns `true` if this node can serve another session.
    async fn can_add_session(&self) -> bool {
        self.sessions.local.sessions.read().await.len() < self.max_sessions
    }

    /// Parses a message, or returns the reason why it is refused.
    fn parse(&self, body: &Bytes, footprint: &mut Footprint) -> Result<Value, (StatusCode, ErrorData)> {
        match footprint.parse(&self.memory_budget, body) {
            Ok(message) => Ok(message),
            Err(Unread::Json(error)) => {
                Err((StatusCode::BAD_REQUEST, ErrorData::new(ErrorCode::PARSE_ERROR, error.to_string(), None)))
            }
            Err(Unread::MemoryExhausted(_)) => {
                Err((StatusCode::SERVICE_UNAVAILABLE, not_submitted(SubmitError::Overloaded)))
            }
        }
    }

    async fn within(
        &self,
        session: bool,
        parts: Parts,
        body: Bytes,
        request: Option<PendingRequest>,
    ) -> Response<Body> {
        let access = parts.extensions.get::<Access>().cloned();
        let id = header(&parts, SESSION);
        let message = Request::from_parts(parts, Full::new(body));
        let answer: Response<BoxBody<Bytes, Infallible>> = if session && self.max_sessions > 0 {
            let id = id.as_deref().unwrap_or_default();
            // Held until the response begins, which does not wait for the call.
            let permit = if id.is_empty() { None } else { self.sessions.permit_to_restore(id).await };
            let answer = CLIENT.scope(StreamClient { access, request }, self.stateful.handle(message)).await;
            if permit.is_some() {
                self.sessions.note_ready(id).await;
            }
            answer
        } else {
            self.stateless.handle(message).await
        };
        answer.map(Body::new)
    }
}

fn header(parts: &Parts, name: &str) -> Option<String> {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The parts of a message that the endpoint uses.
pub(super) struct Outline {
    method: Value,
    pub id: Value,
    /// The parameters of `initialize` and of a cancellation.
    params: Value,
    /// The token for the progress of a call.
    token: Value,
    /// The call of a request in a session.
    call: Option<Uuid>,
    is_modern: bool,
}

impl Outline {
    pub fn is_initialize(&self) -> bool {
        self.method == "initialize"
    }

    fn pending(&self) -> Option<PendingRequest> {
        let id = serde_json::from_value(self.id.clone()).ok()?;
        let token = serde_json::from_value(self.token.clone()).ok();
        Some(PendingRequest { id, call: self.call, token, progress: None })
    }
}

/// Creates the response to a message that needs the database, which is unavailable.
fn unavailable(id: &Value) -> Response<Body> {
    let data = json!({"code": "STORE_UNAVAILABLE", "retryable": true});
    let error = ErrorData::new(RETRY_LATER, "the database is unavailable; retry later", Some(data));
    refused(StatusCode::SERVICE_UNAVAILABLE, id, &error)
}

fn owner_of(parts: &Parts) -> Owner {
    let caller = parts.extensions.get::<Access>().map(Access::caller);
    caller.map_or_else(Owner::default, |caller| (caller.tenant.clone(), caller.key))
}

/// Returns `true` if a message declares version 2026-07-28 or later, which has no `initialize`.
fn is_modern(message: &Value) -> bool {
    let version = message["params"]["_meta"][META_VERSION].as_str();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Creates the response to a client that accepts no form of the response.
fn not_acceptable(forms: &str) -> Response<Body> {
    (StatusCode::NOT_ACCEPTABLE, format!("Accept must allow {forms}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn era_of_a_message_is_detected() {
        let of = |version: &str| is_modern(&json!({"params": {"_meta": {META_VERSION: version}}}));
        assert!(of("2026-07-28") && !of("2025-11-25") && !is_modern(&json!({"params": 1})));
    }
}
