//! Reading calls: one, or a page of them.

use futures_util::{Stream, TryStreamExt};
use sqlx::QueryBuilder;
use uuid::Uuid;

use super::codec::{self, CallRow};
use super::events::by_ids;
use super::{Db, Store, StoreError, db};
use crate::domain::{Call, Status, Time};

/// Bytes of stored calls that a page has at most, if it has several calls.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Which calls are wanted; absent fields ask nothing.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Of this session.
    pub session: Option<String>,
    /// Of this batch.
    pub batch_id: Option<Uuid>,
    /// Of this tool.
    pub name: Option<String>,
    /// In this status.
    pub status: Option<Status>,
    /// Accepted at or after.
    pub since: Option<Time>,
    /// Accepted before.
    pub until: Option<Time>,
    /// Older than this call: where the page before ended.
    pub before: Option<Uuid>,
    /// Most calls of a page.
    pub limit: u32,
}

impl Store {
    /// One call.
    ///
    /// # Errors
    /// If the database fails.
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

    /// These calls, in no order; those of others are not among them.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn calls_of(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        self.rows_of(ids).await?.into_iter().map(CallRow::decode).collect()
    }

    /// These calls as they are shown, newest first; those of others are not among them.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn calls_in_order(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        let mut calls = self.calls_of(ids).await?;
        calls.sort_unstable_by_key(|call| std::cmp::Reverse(call.id));
        self.show_callbacks(&mut calls).await?;
        Ok(calls)
    }

    /// The ids of a page of calls, newest first, each with the name of its tool. A name that no tool can have may be cut.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn call_tools(&self, filter: &CallFilter) -> Result<Vec<(Uuid, String)>, StoreError> {
        const COLUMNS: &str = "id, tool";
        Ok(db::on_reader!(&self.db, pool => page(self, filter, COLUMNS).build_query_as().fetch_all(pool).await?))
    }

    /// Reads a page of calls, newest first. Where they take too much memory it has fewer than the filter says, but one; the
    /// flag says that this is so.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn calls(&self, filter: &CallFilter) -> Result<(Vec<Call>, bool), StoreError> {
        let (rows, is_cut) = db::on_reader!(&self.db, pool => first(page(self, filter, codec::COLUMNS).build_query_as().fetch(pool)).await?);
        let mut calls = rows.into_iter().map(CallRow::decode).collect::<Result<Vec<_>, _>>()?;
        self.show_callbacks(&mut calls).await?;
        Ok((calls, is_cut))
    }
}

/// The first of these rows up to a number of bytes, and whether others follow.
async fn first(
    mut rows: impl Stream<Item = Result<CallRow, sqlx::Error>> + Unpin,
) -> Result<(Vec<CallRow>, bool), sqlx::Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        bytes += row.bytes();
        if bytes > MOST_BYTES && !found.is_empty() {
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

/// How far a stored call has come: its status, attempt and last event, as the journal's guard compares them.
#[derive(Debug, Clone)]
pub(super) struct StoredVersion {
    pub id: Uuid,
    status: i16,
    attempt: i32,
    seq: i32,
    node: String,
}

impl StoredVersion {
    /// Whether a change to `call` comes too late: it has ended, or the change belongs to an earlier attempt or owner.
    pub fn fences(&self, call: &Call) -> bool {
        self.status >= codec::status_number(Status::Success)
            || self.attempt > call.attempts as i32
            || self.seq >= call.last_seq as i32
            || *self.node != *call.node
    }
}

/// How far these calls have come on disk.
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
