//! Infrequent session queries: listing, idle sessions and deletion.

use sqlx::QueryBuilder;
use uuid::Uuid;

use super::row::{COLUMNS, SessionRow, state_number};
use crate::domain::{Session, SessionState, Tenant, Time};
use crate::store::{Store, StoreError, Stores, db};

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
        let rows: Vec<(String,)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(cutoff.0).fetch_all(pool).await)?;
        Ok(rows.into_iter().map(|(tenant,)| Tenant::stored(&tenant)).collect())
    }
}

impl Store {
    /// Returns a page of sessions, newest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        let rows: Vec<SessionRow> =
            db::on_reader!(&self.db, pool => page(self, filter).build_query_as().fetch_all(pool).await?);
        rows.into_iter().map(SessionRow::decode).collect()
    }

    /// Returns up to `limit` sessions that were not changed or used since `cutoff`, least recently used first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn idle_sessions(&self, cutoff: Time, limit: u32) -> Result<Vec<(String, Time)>, StoreError> {
        const SQL: &str = "SELECT id, updated_at FROM sessions WHERE tenant = $1 AND updated_at <= $2 \
            ORDER BY updated_at LIMIT $3";
        let rows: Vec<(String, i64)> = db::on_reader!(&self.db, pool => sqlx::query_as(SQL)
            .bind(self.tenant.as_str().to_owned()).bind(cutoff.0).bind(i64::from(limit))
            .fetch_all(pool).await)?;
        Ok(rows.into_iter().map(|(id, used)| (id, Time(used))).collect())
    }

    /// Returns when the newest call of a session was accepted, and whether a call is unfinished.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_use(&self, id: &str) -> Result<(Option<Time>, bool), StoreError> {
        const SQL: &str = "SELECT created_at FROM tool_calls WHERE tenant = $1 AND session = $2 \
            ORDER BY id DESC LIMIT 1";
        let newest: Option<(i64,)> = db::on_reader!(&self.db, pool => sqlx::query_as(SQL)
            .bind(self.tenant.as_str().to_owned()).bind(id.to_owned())
            .fetch_optional(pool).await)?;
        let pending: Vec<Uuid> = self.session_pending(id, Uuid::nil(), 1).await?;
        Ok((newest.map(|(at,)| Time(at)), !pending.is_empty()))
    }

    /// Deletes a session but not its calls; with `unused_since` only if it was not changed or used since. Returns
    /// `true` if it was deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_session(&self, id: &str, unused_since: Option<Time>) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM sessions WHERE tenant = $1 AND id = $2 AND updated_at <= $3";
        let unused_since = unused_since.map_or(i64::MAX, |time| time.0);
        let rows = db::on_writer!(&self.db, pool => sqlx::query(SQL)
            .bind(self.tenant.as_str().to_owned()).bind(id.to_owned()).bind(unused_since)
            .execute(pool).await?.rows_affected());
        self.tell_of_session(id, rows)
    }

    /// Returns the active sessions that were created for tasks of this session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_tasks(&self, parent: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT id FROM sessions WHERE tenant = $1 AND parent = $2 AND parent_call IS NOT NULL \
            AND state = 0";
        let rows: Vec<(String,)> = db::on_reader!(&self.db, pool => sqlx::query_as(SQL)
            .bind(self.tenant.as_str().to_owned()).bind(parent.to_owned())
            .fetch_all(pool).await)?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}

fn page<D: sqlx::Database>(store: &Store, filter: &SessionFilter) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i16: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("SELECT ");
    query.push(COLUMNS).push(" FROM sessions WHERE tenant = ").push_bind(store.tenant.as_str().to_owned());
    if let Some(state) = filter.state {
        query.push(" AND state = ").push_bind(state_number(state));
    }
    if let Some(parent) = &filter.parent {
        query.push(" AND parent = ").push_bind(parent.clone());
    }
    if let Some(SessionCursor { created_at, id }) = &filter.before {
        query.push(" AND (created_at, id) < (").push_bind(created_at.0);
        query.push(", ").push_bind(id.clone()).push(")");
    }
    query.push(" ORDER BY created_at DESC, id DESC LIMIT ").push_bind(i64::from(filter.limit));
    query
}
