//! Queries for calls, single or in pages.

use futures_util::{Stream, TryStreamExt};
use sqlx::QueryBuilder;
use uuid::Uuid;

use super::codec::{self, CallRow};
use super::events::by_ids;
use super::{Db, Store, StoreError, db};
use crate::domain::{Call, Status, Time};

/// Maximum bytes of stored calls in a page of more than one call.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The conditions for a page of calls. Absent fields match all calls.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// The session of the calls.
    pub session: Option<String>,
    /// The batch of the calls.
    pub batch_id: Option<Uuid>,
    /// The tool of the calls.
    pub name: Option<String>,
    /// The status of the calls.
    pub status: Option<Status>,
    /// Accepted at or after this time.
    pub since: Option<Time>,
    /// Accepted before this time.
    pub until: Option<Time>,
    /// Older than this call, the last one of the previous page.
    pub before: Option<Uuid>,
    /// Maximum number of calls in the page.
    pub limit: u32,
}

impl Store {
    /// Returns one call, or `None` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn call(&self, id: Uuid) -> Result<Option<Call>, StoreError> {
        let Some(row) = self.call_row(id).await? else { return Ok(None) };
        let mut call = row.decode()?;
        self.show_callbacks(std::slice::from_mut(&mut call)).await?;
        Ok(Some(call))
    }

    pub(super) async fn call_row(&self, id: Uuid) -> Result<Option<CallRow>, StoreError> {
        const SQL: &str = "SELECT id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, \
            accepted_pos, started_pos, settled_pos, arguments, record FROM tool_calls WHERE id = $1 AND tenant = $2";
        let tenant = self.tenant.as_str();
        let row = db::on_reader!(&self.db, pool =>
            sqlx::query_as::<_, CallRow>(SQL).bind(id).bind(tenant.to_owned()).fetch_optional(pool).await)?;
        Ok(row)
    }

    pub(super) async fn rows_of(&self, ids: &[Uuid]) -> Result<Vec<CallRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        Ok(db::on_reader!(&self.db, pool => {
            let mut query = by_ids(ids);
            query.push(" AND tenant = ").push_bind(self.tenant.as_str().to_owned());
            query.build_query_as().fetch_all(pool).await?
        }))
    }

    /// Returns these calls in no particular order. Calls of other tenants are omitted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls_of(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        self.rows_of(ids).await?.into_iter().map(CallRow::decode).collect()
    }

    /// Returns these calls with the state of their callbacks, newest first. Calls of other tenants are omitted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls_in_order(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        let mut calls = self.calls_of(ids).await?;
        calls.sort_unstable_by_key(|call| std::cmp::Reverse(call.id));
        self.show_callbacks(&mut calls).await?;
        Ok(calls)
    }

    /// Returns the ids of a page of calls and the names of their tools, newest first. A name that is too long for a
    /// tool may be truncated.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn call_tools(&self, filter: &CallFilter) -> Result<Vec<(Uuid, String)>, StoreError> {
        const COLUMNS: &str = "id, tool";
        Ok(db::on_reader!(&self.db, pool => page(self, filter, COLUMNS).build_query_as().fetch_all(pool).await?))
    }

    /// Returns a page of calls, newest first. Large calls can make the page shorter than `limit`, down to one call;
    /// then the flag is `true`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls(&self, filter: &CallFilter) -> Result<(Vec<Call>, bool), StoreError> {
        let (rows, is_cut) = db::on_reader!(&self.db, pool => first(page(self, filter, codec::COLUMNS).build_query_as().fetch(pool)).await?);
        let mut calls = rows.into_iter().map(CallRow::decode).collect::<Result<Vec<_>, _>>()?;
        self.show_callbacks(&mut calls).await?;
        Ok((calls, is_cut))
    }
}

/// Collects rows up to [`MAX_BYTES`]. Returns whether further rows follow.
async fn first(
    mut rows: impl Stream<Item = Result<CallRow, sqlx::Error>> + Unpin,
) -> Result<(Vec<CallRow>, bool), sqlx::Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        bytes += row.bytes();
        if bytes > MAX_BYTES && !found.is_empty() {
            return Ok((found, true));
        }
        found.push(row);
    }
    Ok((found, false))
}

fn page<D: sqlx::Database>(store: &Store, filter: &CallFilter, columns: &str) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i16: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("SELECT ");
    query.push(columns).push(" FROM tool_calls WHERE tenant = ").push_bind(store.tenant.as_str().to_owned());
    if let Some(session) = &filter.session {
        query.push(" AND session = ").push_bind(session.clone());
    }
    if let Some(batch) = filter.batch_id {
        query.push(" AND batch_id = ").push_bind(batch);
    }
    if let Some(name) = &filter.name {
        query.push(" AND tool = ").push_bind(codec::indexed_name(name).into_owned());
    }
    if let Some(status) = filter.status {
        query.push(" AND status = ").push_bind(codec::status_number(status));
    }
    if let Some(since) = filter.since {
        query.push(" AND created_at >= ").push_bind(since.0);
    }
    if let Some(until) = filter.until {
        query.push(" AND created_at < ").push_bind(until.0);
    }
    if let Some(before) = filter.before {
        query.push(" AND id < ").push_bind(before);
    }
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(filter.limit));
    query
}

/// The status, attempt, last event and node of a stored call, as the fence of the journal compares them.
#[derive(Debug, Clone)]
pub(super) struct StoredVersion {
    pub id: Uuid,
    status: i16,
    attempt: i32,
    seq: i32,
    node: String,
}

impl StoredVersion {
    /// Returns `true` if a change to `call` is outdated: the stored call has ended, has these events, or belongs to a
    /// later attempt or another node.
    pub fn fences(&self, call: &Call) -> bool {
        self.status >= codec::status_number(Status::Success)
            || self.attempt > call.attempts as i32
            || self.seq >= call.last_seq as i32
            || *self.node != *call.node
    }
}

/// Returns the stored versions of these calls.
pub(super) async fn reached(db: &Db, ids: &[Uuid]) -> Result<Vec<StoredVersion>, StoreError> {
    fn query<D: sqlx::Database>(ids: &[Uuid]) -> QueryBuilder<D>
    where
        Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    {
        let mut query = QueryBuilder::<D>::new("SELECT id, status, attempt, seq, node FROM tool_calls WHERE id IN (");
        let mut list = query.separated(", ");
        for id in ids {
            list.push_bind(*id);
        }
        query.push(")");
        query
    }
    let found: Vec<(Uuid, i16, i32, i32, String)> =
        db::on_reader!(db, pool => query(ids).build_query_as().fetch_all(pool).await?);
    let reached = |(id, status, attempt, seq, node)| StoredVersion { id, status, attempt, seq, node };
    Ok(found.into_iter().map(reached).collect())
}
