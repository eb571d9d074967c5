//! Sessions: created once, read by each of their calls, rarely changed. Each mutable field has its own column, so that
//! concurrent changes do not overwrite each other.

use std::collections::BTreeMap;

use super::{Store, StoreError};
use toolpost_core::domain::{Completion, Session, SessionState, Time};

mod calls;
mod maintenance;
mod row;

pub use maintenance::{SessionCursor, SessionFilter};

use row::{Doc, state_number};

impl Store {
    /// Returns one session, or `None` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session(&self, id: &str) -> Result<Option<Session>, StoreError> {
        let query = self.db.read(row::SELECT).push_bind(&self.tenant).push(" AND id = ").push_bind(id);
        query.optional().await?.map(row::decode).transpose()
    }

    /// Returns those of these sessions that exist, in no particular order.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sessions_named(&self, ids: &[&str]) -> Result<Vec<Session>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query =
            self.db.read(row::SELECT).push_bind(&self.tenant).push(" AND id IN ").push_list(ids.iter().copied());
        query.uncached().all().await?.into_iter().map(row::decode).collect()
    }

    /// Creates a session. Returns `false` if a session with this id exists.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn make_session(&self, session: &Session) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO sessions \
            (tenant, id, state, parent, parent_call, switched, completion, doc, created_at, updated_at, since) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (tenant, id) DO NOTHING";
        self.reserve_session().await?;
        // Its calls are accepted after its creation, so they are newer than anything read before it.
        let since = self.newest().await?.to_string();
        let doc = row::json(&Doc::of(session))?;
        let switched = row::json(&session.groups)?;
        let completion = session.completion.as_ref().map(row::json).transpose()?;
        let Session { id, state, parent, parent_call, created_at, updated_at, .. } = session;
        let query = self.write(SQL).bind(&**id).bind(state_number(*state)).bind(parent).bind(parent_call);
        let query = query.bind(switched).bind(completion).bind(doc).bind(created_at).bind(updated_at).bind(since);
        Ok(query.execute().await? > 0)
    }

    /// Replaces the group switches of a session. Returns `false` if the session does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn set_session_groups(&self, id: &str, groups: &BTreeMap<String, bool>) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET switched = $3 WHERE tenant = $1 AND id = $2";
        Ok(self.write(SQL).bind(id).bind(row::json(groups)?).execute().await? > 0)
    }

    /// Ends an active session. Returns `false` if it is not active.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn end_session(
        &self,
        id: &str,
        state: SessionState,
        completion: Option<&Completion>,
        now: Time,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET state = $3, completion = $4, updated_at = $5 \
            WHERE tenant = $1 AND id = $2 AND state = 0";
        let completion = completion.map(row::json).transpose()?;
        let query = self.write(SQL).bind(id).bind(state_number(state)).bind(completion).bind(now);
        self.tell_of_session(id, query.execute().await?)
    }

    /// Reactivates an ended session. Returns `false` if it had not ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn resume_session(&self, id: &str, now: Time) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET state = 0, completion = NULL, updated_at = $3 \
            WHERE tenant = $1 AND id = $2 AND state <> 0";
        self.tell_of_session(id, self.write(SQL).bind(id).bind(now).execute().await?)
    }

    /// Records that a session is in use. Returns `false` if the session does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn touch_session(&self, id: &str, now: Time) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET updated_at = $3 WHERE tenant = $1 AND id = $2";
        Ok(self.write(SQL).bind(id).bind(now).execute().await? > 0)
    }

    fn tell_of_session(&self, id: &str, rows: u64) -> Result<bool, StoreError> {
        if rows > 0 {
            self.signals.notify_session(&self.tenant, id);
        }
        Ok(rows > 0)
    }
}
