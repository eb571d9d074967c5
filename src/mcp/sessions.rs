//! The sessions of this node. A session of another node is restored with its first request here, and a stream of another
//! node is resumed from the stored call.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::ready;
use futures_util::{Stream, StreamExt, stream};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerNotification, ToolListChangedNotification,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::{RestoreOutcome, SessionId, SessionManager};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use super::event_id::{EventId, PendingRequest};
use super::replay::Replay;
use super::running::{RunningRequests, restore};
use super::shared::SharedState;
use crate::access::Access;
use crate::engine::Notice;

tokio::task_local! {
    /// The client whose request is handled. rmcp passes neither the client nor the call to the session manager.
    pub(super) static CLIENT: StreamClient;
}

/// The client of a request that opens a stream.
#[derive(Clone, Default)]
pub(super) struct StreamClient {
    pub access: Option<Access>,
    /// The request, if the stream is its response.
    pub request: Option<PendingRequest>,
}

impl StreamClient {
    fn current() -> Self {
        CLIENT.try_with(Self::clone).unwrap_or_default()
    }
}

type Messages = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// The sessions of this node.
pub(super) struct Sessions {
    pub local: LocalSessionManager,
    pub state: Arc<SharedState>,
    pub running: Arc<RunningRequests>,
    /// The sessions that have been initialized or restored. rmcp knows a session before it is.
    ready: Mutex<HashSet<SessionId>>,
    /// The permit to restore a session. rmcp restores a session several times if its first requests are concurrent.
    restoring: Semaphore,
}

impl Sessions {
    pub fn new(local: LocalSessionManager, state: Arc<SharedState>) -> Self {
        Self { local, state, running: Arc::default(), ready: Mutex::default(), restoring: Semaphore::new(1) }
    }

    fn ready(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a session is initialized, if it is on this node.
    pub async fn note_ready(&self, id: &str) {
        if self.is_here(id).await {
            self.ready().insert(id.into());
        }
    }

    /// Waits until no other request restores the session. Returns a permit if the next request restores it.
    pub async fn permit_to_restore(&self, id: &str) -> Option<SemaphorePermit<'_>> {
        if self.ready().contains(id) {
            return None;
        }
        // The semaphore is never closed.
        let permit = self.restoring.acquire().await.ok()?;
        (!self.ready().contains(id)).then_some(permit)
    }

    /// Returns `true` if the session is on this node.
    pub async fn is_here(&self, id: &str) -> bool {
        self.local.sessions.read().await.contains_key(id)
    }

    /// Applies the notices of other nodes until the endpoint closes.
    pub async fn follow_notices(&self) {
        let mut notices = self.state.engine.notices().subscribe();
        loop {
            let notice = tokio::select! {
                () = self.state.closing.cancelled() => return,
                notice = notices.recv() => notice,
            };
            match notice {
                Ok(Notice::McpRequestCancelled { session, request }) => {
                    if let Ok(request) = serde_json::from_value(request) {
                        self.cancel(&session, request).await;
                    }
                }
                Ok(Notice::McpCallAbandoned { session, call }) => self.abandon(&session, call).await,
                Ok(Notice::McpSessionEnded { session }) => self.end(session).await,
                Ok(Notice::SessionsAborted { .. }) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Cancels the request to which the client gave this id, unless several have it.
    async fn cancel(&self, session: &SessionId, given: RequestId) {
        if let Some(message) = self.running.resolve(session, cancellation(given)) {
            // If the session has just ended, so have its requests.
            let _ = self.local.accept_message(session, message).await;
        }
    }

    /// Cancels the request that waits for a call.
    async fn abandon(&self, session: &SessionId, call: Uuid) {
        if let Some(unique) = self.running.take_call(session, call) {
            let _ = self.local.accept_message(session, cancellation(unique)).await;
        }
    }

    /// Ends a session on this node, and with it its requests.
    pub async fn end(&self, session: SessionId) {
        self.state.forget(&session);
        if let Err(error) = self.close_session(&session).await {
            tracing::debug!(%error, "cannot close an MCP session");
        }
    }

    /// Replaces the ids of events by ids that every node understands, and those of requests by what the client gave.
    fn mark(
        &self,
        messages: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        mut request: Option<PendingRequest>,
    ) -> Messages {
        let node = self.state.engine.node().clone();
        Box::pin(messages.filter_map(move |mut message| {
            if let (Some(request), Some(progress)) = (&mut request, progress_of(&message)) {
                request.progress = Some(progress);
            }
            if let Some(local) = message.event_id.take() {
                let id = EventId { node: node.clone(), local, request: request.clone() };
                message.event_id = Some(id.text());
            }
            if let Some(content) = message.message.take() {
                message.message = restore(content, request.as_ref());
                if message.message.is_none() {
                    return ready(None);
                }
            }
            ready(Some(message))
        }))
    }
}

fn cancellation(request: RequestId) -> ClientJsonRpcMessage {
    let params = CancelledNotificationParam::new(Some(request), None);
    let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
    ClientJsonRpcMessage::notification(notification)
}

fn progress_of(message: &ServerSseMessage) -> Option<f64> {
    match message.message.as_deref()? {
        JsonRpcMessage::Notification(sent) => match &sent.notification {
            ServerNotification::ProgressNotification(progress) => Some(progress.params.progress),
            _ => None,
        },
        _ => None,
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.ready().remove(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let call = StreamClient::current().request.and_then(|request| request.call);
        let request = self.running.begin(id, &mut message, call);
        let messages = self.local.create_stream(id, message).await?;
        Ok(self.mark(messages, request))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        match self.running.resolve(id, message) {
            Some(message) => self.local.accept_message(id, message).await,
            // It is accepted, like every notification, but cancels nothing.
            None => Ok(()),
        }
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let messages = self.local.create_standalone_stream(id).await?;
        Ok(self.mark(messages, None))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let Some(last) = EventId::read(&last_event_id) else {
            let messages = self.local.resume(id, last_event_id).await?;
            return Ok(self.mark(messages, None));
        };
        if last.node == *self.state.engine.node()
            && !last.local.is_empty()
            && let Ok(messages) = self.local.resume(id, last.local).await
        {
            return Ok(self.mark(messages, last.request));
        }
        match (last.request, StreamClient::current().access) {
            (Some(request), Some(access)) => {
                let state = self.state.clone();
                let mut messages = Replay { state, access, origin: last.node, request }.start();
                Ok(Box::pin(stream::poll_fn(move |context| messages.poll_recv(context))) as Messages)
            }
            (Some(_), None) => Ok(Box::pin(stream::empty())),
            // It is unknown what another node has sent, so the client reads the list again.
            (None, _) => {
                let notification =
                    ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default());
                let changed = ServerSseMessage::from_message(ServerJsonRpcMessage::notification(notification));
                let messages = self.local.create_standalone_stream(id).await?;
                Ok(Box::pin(stream::iter([changed]).chain(self.mark(messages, None))))
            }
        }
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        self.local.restore_session(id).await
    }
}
