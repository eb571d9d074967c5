//! Sessions of clients before 2026-07-28, on any node: their owners, their ends, and what a client tells one node about
//! the requests of another.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::disconnect::{CallStream, Presence};
use crate::app::App;
use crate::domain::{Clock, Tenant};
use crate::engine::{Engine, Notice};
use crate::events::Bus;
use crate::store::mcp_sessions::{IDLE, McpSession};
use crate::store::{StoreError, Stores};

/// Maximum age of a check whether a session exists. A session that ends at one node is unknown to the others no later.
const CHECKED_FOR: Duration = Duration::from_secs(1);
/// A use of a session is recorded after this fraction of its idle time, so that not every request writes.
const IDLE_FRACTION: i64 = 4;

/// The tenant and the id of the key of a client; no key if authentication is disabled.
pub(super) type Owner = (Tenant, Option<Uuid>);

/// The state that all nodes share.
pub(super) struct SharedState {
    pub engine: Arc<Engine>,
    pub stores: Stores,
    pub bus: Bus,
    /// Cancelled when streams must end.
    pub closing: CancellationToken,
    clock: Clock,
    /// The owners of the sessions that were used lately, with the time of the last check.
    owners: Mutex<HashMap<String, (Owner, Instant)>>,
    /// Maximum number of entries of `owners`.
    max_owners: usize,
}

impl SharedState {
    pub fn new(app: &App, max_owners: usize, closing: CancellationToken) -> Self {
        let (engine, stores, bus) = (app.engine.clone(), app.store.stores().clone(), app.bus.clone());
        Self { engine, stores, bus, closing, clock: app.clock.clone(), owners: Mutex::default(), max_owners }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, (Owner, Instant)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a new session.
    pub async fn begin(&self, id: &str, owner: Owner, params: &Value) -> Result<(), StoreError> {
        let (tenant, key) = owner.clone();
        let session = McpSession { tenant, key, params: params.to_string(), used_at: self.clock.now() };
        self.stores.insert_mcp_session(id, &session).await?;
        self.note(id, owner);
        Ok(())
    }

    /// Returns `true` if the session exists and belongs to this client. If the database fails, the last answer counts.
    pub async fn is_of(&self, id: &str, owner: &Owner) -> Result<bool, StoreError> {
        let known = self.owners().get(id).cloned();
        if let Some((known, checked)) = &known
            && checked.elapsed() < CHECKED_FOR
        {
            return Ok(known == owner);
        }
        let now = self.clock.now();
        match (self.stores.mcp_session(id, now).await, known) {
            (Ok(Some(session)), _) => {
                let idle = i64::try_from(IDLE.as_micros()).unwrap_or(i64::MAX);
                if now.0.saturating_sub(session.used_at.0) >= idle / IDLE_FRACTION {
                    self.stores.touch_mcp_session(id, now).await?;
                }
                let found = (session.tenant, session.key);
                let is_of = found == *owner;
                self.note(id, found);
                Ok(is_of)
            }
            (Ok(None), _) => {
                self.forget(id);
                Ok(false)
            }
            (Err(_), Some((known, _))) => Ok(known == *owner),
            (Err(error), None) => Err(error),
        }
    }

    fn note(&self, id: &str, owner: Owner) {
        let mut owners = self.owners();
        if owners.len() >= self.max_owners {
            owners.retain(|_, (_, checked)| checked.elapsed() < CHECKED_FOR);
        }
        owners.insert(id.to_owned(), (owner, Instant::now()));
    }

    /// Forgets the owner of a session, which is looked up again if it is used.
    pub fn forget(&self, id: &str) {
        self.owners().remove(id);
    }

    /// Records that a client resumes the stream of a call. Returns the number of resumptions so far.
    pub async fn resume(&self, call: Uuid) -> Result<i64, StoreError> {
        self.stores.resume_mcp_stream(call, self.clock.now()).await
    }

    /// Tells the other nodes that a client has cancelled a request, which does not run here.
    pub async fn tell_cancelled(&self, session: &str, request: Value) {
        if !request.is_null() {
            self.tell(&Notice::McpRequestCancelled { session: session.into(), request }).await;
        }
    }

    async fn tell(&self, notice: &Notice) {
        if let Err(error) = self.engine.notices().post(notice).await {
            tracing::warn!(%error, "cannot forward the cancellation of an MCP request");
        }
    }
}

/// Whether the client of a call's stream is connected to any node.
impl Presence for SharedState {
    async fn is_resumed(&self, stream: &CallStream) -> Option<bool> {
        Some(self.stores.mcp_resumptions(stream.call).await.ok()? > stream.resumed)
    }

    async fn cancel(&self, stream: &CallStream) {
        // A call that another node has not recorded yet is known only to that node.
        let (session, call) = (stream.session.as_str().into(), stream.call);
        self.tell(&Notice::McpCallAbandoned { session, call }).await;
        // The call of a resumed stream is named by its client.
        if stream.resumed > 0
            && let Some(access) = &stream.access
            && !access.may_reach_id(stream.call).await.unwrap_or(false)
        {
            return;
        }
        if let Err(error) = self.engine.control().cancel(&stream.tenant, stream.call).await {
            tracing::warn!(%error, call = %stream.call, "cannot cancel a call");
        }
    }
}

/// The parameters of `initialize`, from which rmcp restores a session of another node.
pub(super) struct StoredSessions(pub Arc<SharedState>);

type StoredFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

// The futures are made outside of the trait's methods. With the lifetimes of the methods in scope, the compiler would prove again
// for everything in them that it can be sent.
impl StoredSessions {
    fn restore<'a>(&'a self, id: &'a str) -> StoredFuture<'a, Option<SessionState>> {
        Box::pin(async move {
            let Some(session) = self.0.stores.mcp_session(id, self.0.clock.now()).await? else { return Ok(None) };
            Ok(Some(SessionState::new(serde_json::from_str(&session.params)?)))
        })
    }

    fn end<'a>(&'a self, id: &'a str) -> StoredFuture<'a, ()> {
        Box::pin(async move {
            self.0.forget(id);
            self.0.stores.delete_mcp_session(id).await?;
            self.0.engine.notices().post(&Notice::McpSessionEnded { session: id.into() }).await?;
            Ok(())
        })
    }
}

impl SessionStore for StoredSessions {
    fn load<'life0, 'life1, 'async_trait>(
        &'life0 self,
        id: &'life1 str,
    ) -> StoredFuture<'async_trait, Option<SessionState>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        self.restore(id)
    }

    /// Does nothing: the endpoint records a session with its owner.
    fn store<'life0, 'life1, 'life2, 'async_trait>(
        &'life0 self,
        _: &'life1 str,
        _: &'life2 SessionState,
    ) -> StoredFuture<'async_trait, ()>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async { Ok(()) })
    }

    fn delete<'life0, 'life1, 'async_trait>(&'life0 self, id: &'life1 str) -> StoredFuture<'async_trait, ()>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        self.end(id)
    }
}
