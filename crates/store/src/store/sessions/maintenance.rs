//! Infrequent session queries: listing, idle sessions and deletion.

use uuid::Uuid;

use super::row::{self, state_number};
use crate::store::{Store, StoreError, Stores};
use toolpost_core::domain::{Session, SessionState, Tenant, Time};

/// The end of a page of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    /// The time of creation of the last session.
    pub created_at: Time,
    /// The id of the last session.
    pub id: String,
}

/// The conditions for a page of sessions. Absent fields match all sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// The state of the sessions.
    pub state: Option<SessionState>,
    /// The parent session, for whose task the sessions were created.
    pub parent: Option<String>,
    /// Older than this session.
    pub before: Option<SessionCursor>,
    /// Maximum number of sessions in the page.
    pub limit: u32,
}

impl Stores {
    /// Returns the tenants of sessions that were not changed or used since `cutoff`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tenants_of_idle_sessions(&self, cutoff: Time) -> Result<Vec<Tenant>, StoreError> {
        const SQL: &str = "SELECT DISTINCT tenant FROM sessions WHERE updated_at <= $1";
        self.db.read(SQL).bind(cutoff).column().await
    }
}

impl Store {
    /// Returns a page of sessions, newest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        let mut query = self.db.read(row::SELECT).push_bind(&self.tenant);
        query = query.push_some(" AND state = ", filter.state.map(state_number));
        query = query.push_some(" AND parent = ", filter.parent.as_ref());
        if let Some(SessionCursor { created_at, id }) = &filter.before {
            query = query.push(" AND (created_at, id) < (").push_bind(created_at).push(", ").push_bind(id).push(")");
        }
        query = query.push(" ORDER BY created_at DESC, id DESC LIMIT ").push_bind(i64::from(filter.limit));
        query.all().await?.into_iter().map(row::decode).collect()
    }

    /// Returns up to `limit` sessions that were not changed or used since `cutoff`, least recently used first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn idle_sessions(&self, cutoff: Time, limit: u32) -> Result<Vec<(String, Time)>, StoreError> {
        const SQL: &str = "SELECT id, updated_at FROM sessions WHERE tenant = $1 AND updated_at <= $2 \
            ORDER BY updated_at LIMIT $3";
        self.read(SQL).bind(cutoff).bind(i64::from(limit)).all().await
    }

    /// Returns when the newest call of a session was accepted, and whether a call is unfinished.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_use(&self, id: &str) -> Result<(Option<Time>, bool), StoreError> {
        const SQL: &str = "SELECT created_at FROM tool_calls WHERE tenant = $1 AND session = $2 \
            ORDER BY id DESC LIMIT 1";
        let newest = self.read(SQL).bind(id).optional().await?;
        let pending: Vec<Uuid> = self.session_pending(id, Uuid::nil(), 1).await?;
        Ok((newest.map(|(at,)| at), !pending.is_empty()))
    }

    /// Deletes a session but not its calls; with `unused_since` only if it was not changed or used since. Returns
    /// `true` if it was deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_session(&self, id: &str, unused_since: Option<Time>) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM sessions WHERE tenant = $1 AND id = $2 AND updated_at <= $3";
        const FORGET: &str = "DELETE FROM remembered_approvals WHERE tenant = $1 AND session = $2";
        let query = self.write(SQL).bind(id).bind(unused_since.unwrap_or(Time(i64::MAX)));
        let deleted = query.execute().await?;
        if deleted > 0 {
            self.write(FORGET).bind(id).execute().await?;
        }
        self.tell_of_session(id, deleted)
    }

    /// Returns the active sessions that were created for tasks of this session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_tasks(&self, parent: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT id FROM sessions WHERE tenant = $1 AND parent = $2 AND parent_call IS NOT NULL \
            AND state = 0";
        self.read(SQL).bind(parent).column().await
    }
}
