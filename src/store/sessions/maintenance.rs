//! What is asked of sessions seldom: pages of them, those that nobody uses any more, their end.

use sqlx::QueryBuilder;
use uuid::Uuid;

use super::row::{COLUMNS, SessionRow, state_number};
use crate::domain::{Session, SessionState, Tenant, Time};
use crate::store::{Store, StoreError, Stores, db};

/// Where a page of sessions ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    /// When its last session was made.
    pub created_at: Time,
    /// That session's id.
    pub id: String,
}

/// Which sessions are wanted; absent fields ask nothing.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// In this state.
    pub state: Option<SessionState>,
    /// Made for a task of this one.
    pub parent: Option<String>,
    /// Older than this one.
    pub before: Option<SessionCursor>,
    /// Most sessions of a page.
    pub limit: u32,
}

impl Stores {
    /// Whose sessions nobody has changed or touched since `cutoff`.
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
    /// A page of sessions, newest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        let rows: Vec<SessionRow> =
            db::on_reader!(&self.db, pool => page(self, filter).build_query_as().fetch_all(pool).await?);
        rows.into_iter().map(SessionRow::decode).collect()
    }

    /// Sessions that nobody has changed or touched since `cutoff`, so many at most, in the order of their last use.
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

    /// When the newest call of a session was accepted, and whether any has not ended.
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

    /// Forgets a session; with `unused_since` only if nobody has changed or touched it since. Returns whether it did. Its
    /// calls stay.
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

    /// The sessions that were made for tasks of this one and still go on.
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
