//! The end of a session and of all its calls, and the deletion of idle sessions.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::control::{ControlOutcome, ControlPlane};
use super::notices::{Notice, NoticeBoard};
use crate::call_table::CallTable;
use crate::registry::Registry;
use toolpost_core::domain::{Clock, Completion, Session, SessionState, Tenant, Time, ToolOutput};
use toolpost_store::store::{Store, StoreError, Stores};

pub(super) use toolpost_store::store::signals::SessionKey;

/// Number of calls read at a time.
const PAGE: u32 = 256;
/// Number of idle sessions read at a time.
const STEP: u32 = 64;
/// Maximum and minimum interval between two checks for idle sessions.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));

/// The calls of sessions on this node, from planning to their end, including calls that are not published yet.
pub(super) type SessionCalls = CallTable<SessionCall>;

/// A call of a session.
#[derive(Debug, Clone)]
pub struct SessionCall {
    pub(super) session: SessionKey,
    pub(super) tool: Arc<str>,
    pub(super) cancel: CancellationToken,
}

impl SessionCalls {
    /// Applies a notice of another node.
    pub(super) fn apply(&self, notice: &Notice) {
        let Notice::SessionsAborted { tenant, sessions } = notice else { return };
        let tenant = Tenant::stored(tenant);
        sessions.iter().for_each(|session| self.cancel_all(&(tenant.clone(), session.clone())));
    }

    /// Cancels the calls of a session.
    fn cancel_all(&self, session: &SessionKey) {
        self.of(session).iter().for_each(|call| call.cancel.cancel());
    }

    /// Returns the calls of a session. Looks at all calls, because sessions rarely end.
    pub(super) fn of(&self, session: &SessionKey) -> Vec<SessionCall> {
        self.calls().values().filter(|call| call.session == *session).cloned().collect()
    }

    /// Returns the sessions that have calls.
    pub(super) fn keys(&self) -> HashSet<SessionKey> {
        self.calls().values().map(|call| call.session.clone()).collect()
    }

    /// Returns the calls of a session with their ids.
    pub(super) fn with_ids_of(&self, session: &SessionKey) -> Vec<(Uuid, SessionCall)> {
        let calls = self.calls();
        calls.iter().filter(|(_, call)| call.session == *session).map(|(id, call)| (*id, call.clone())).collect()
    }
}

/// Ends sessions and their calls.
#[derive(Debug)]
pub struct Sessions<'a> {
    pub(super) calls: &'a SessionCalls,
    pub(super) notices: &'a NoticeBoard,
    pub(super) control: ControlPlane<'a>,
    pub(super) registry: &'a Registry,
    pub(super) stores: &'a Stores,
    pub(super) clock: &'a Clock,
}

impl Sessions<'_> {
    /// Returns the names of the tools whose calls end with a session: its own, those of its tasks, and the call of its parent
    /// that waits for it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_that_end_with(&self, store: &Store, session: &Session) -> Result<BTreeSet<String>, StoreError> {
        let mut tools: BTreeSet<String> = self.tool_that_awaits(store, session).await?.into_iter().collect();
        let mut seen = HashSet::from([session.id.to_string()]);
        let mut left: Vec<String> = seen.iter().cloned().collect();
        while let Some(id) = left.pop() {
            let key = (store.tenant().clone(), id.as_str().into());
            tools.extend(self.calls.of(&key).iter().map(|call| call.tool.to_string()));
            tools.extend(store.session_pending_tools(&id).await?);
            left.extend(store.session_tasks(&id).await?.into_iter().filter(|task| seen.insert(task.clone())));
        }
        Ok(tools)
    }

    /// Returns the name of the tool whose call waits for a session to end, if such a call exists.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tool_that_awaits(&self, store: &Store, session: &Session) -> Result<Option<String>, StoreError> {
        let Some(call) = session.parent_call else { return Ok(None) };
        let call = store.call(call).await?.filter(|call| !call.status.is_terminal());
        Ok(call.map(|call| call.name.to_string()))
    }

    /// Ends a session and the sessions of its tasks, and cancels their calls on every node. A completed session stays
    /// completed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn abort(&self, store: &Store, session: &Session) -> Result<(), StoreError> {
        let mut seen = HashSet::from([session.id.to_string()]);
        let mut left: Vec<String> = seen.iter().cloned().collect();
        while let Some(id) = left.pop() {
            store.end_session(&id, SessionState::Aborted, None, self.clock.now()).await?;
            self.cancel_calls_of(store, &id).await?;
            left.extend(store.session_tasks(&id).await?.into_iter().filter(|task| seen.insert(task.clone())));
        }
        if let Some(call) = session.parent_call {
            self.control.cancel(store.tenant(), call).await?;
        }
        // Only the node that runs a call knows it before it is stored.
        let sessions = seen.iter().map(|id| Arc::from(id.as_str())).collect();
        self.notices.post_and_wait(&Notice::SessionsAborted { tenant: store.tenant().shared(), sessions }).await
    }

    /// Aborts and deletes a session. Returns `false` if the session no longer existed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete(&self, store: &Store, session: &Session) -> Result<bool, StoreError> {
        self.abort(store, session).await?;
        let is_deleted = store.delete_session(&session.id, None).await?;
        self.registry.instances().release_session(store.tenant(), &session.id);
        Ok(is_deleted)
    }

    async fn cancel_calls_of(&self, store: &Store, session: &str) -> Result<(), StoreError> {
        self.calls.cancel_all(&(store.tenant().clone(), session.into()));
        let mut after = Uuid::nil();
        loop {
            let page = store.session_pending(session, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = *last;
            self.control.cancel_each(&page).await?;
        }
    }

    /// Completes a session, and passes the completion to the call of its parent that waits for it. Returns `false` if
    /// the session was already completed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn complete(&self, store: &Store, session: &Session, completion: Completion) -> Result<bool, StoreError> {
        // Post the result first: if a later write fails, a repeated completion finishes it.
        let delivered = match session.parent_call {
            Some(call) => Some(self.control.post_result(call, result_of(&session.id, &completion)).await?),
            None => None,
        };
        let ended = store.end_session(&session.id, SessionState::Completed, Some(&completion), self.clock.now());
        let has_ended = ended.await?;
        let is_of_parent = |delivered| matches!(delivered, ControlOutcome::Delivered | ControlOutcome::Ended(_));
        Ok(has_ended && delivered.is_none_or(is_of_parent))
    }

    /// Deletes sessions that have been idle for `idle`, until `stop` fires. Every node does so, in small steps.
    pub(super) async fn run_cleanup(&self, idle: Duration, stop: CancellationToken) {
        if idle.is_zero() {
            return;
        }
        let mut check = tokio::time::interval((idle / 4).clamp(CHECK_INTERVAL.1, CHECK_INTERVAL.0));
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = check.tick() => {}
            }
            if let Err(error) = self.delete_idle(idle).await {
                tracing::debug!(%error, "cannot look up idle sessions");
            }
        }
    }

    async fn delete_idle(&self, idle: Duration) -> Result<(), StoreError> {
        let micros = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
        let now = self.clock.now();
        let cutoff = Time(now.0.saturating_sub(micros));
        for tenant in self.stores.tenants_of_idle_sessions(cutoff).await? {
            let store = self.stores.for_tenant(&tenant);
            loop {
                let idle = store.idle_sessions(cutoff, STEP).await?;
                let is_last = idle.len() < STEP as usize;
                for (id, _) in idle {
                    self.delete_unused(&store, &id, cutoff, now).await?;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn delete_unused(&self, store: &Store, id: &str, cutoff: Time, now: Time) -> Result<(), StoreError> {
        let (newest, is_busy) = store.session_use(id).await?;
        if is_busy {
            store.touch_session(id, now).await?;
        } else if let Some(used) = newest.filter(|used| *used > cutoff) {
            store.touch_session(id, used).await?;
        } else if let Some(session) = store.session(id).await?
            // A concurrent use of the session has updated its time, which makes this delete fail.
            && store.delete_session(id, Some(cutoff)).await?
        {
            self.registry.instances().release_session(store.tenant(), id);
            if let Some(call) = session.parent_call {
                self.control.cancel(store.tenant(), call).await?;
            }
        }
        Ok(())
    }
}

/// Converts the completion of a task to the output of the call that started it.
fn result_of(session: &str, completion: &Completion) -> ToolOutput {
    let Completion { success, summary, error } = completion;
    let text = match (success, error.as_deref().filter(|error| !error.trim().is_empty())) {
        (true, _) | (false, None) => summary.clone(),
        (false, Some(error)) if summary.trim().is_empty() => error.to_owned(),
        (false, Some(error)) => format!("{error}\n{summary}"),
    };
    let structured = json!({"session": session, "success": success, "summary": summary, "error": error});
    ToolOutput::Json(json!({"output": text, "structured": structured, "is_error": !success}))
}
