//! Queries for calls, single or in pages.

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::query::Query;
use super::{Db, Store, StoreError};
use toolpost_core::domain::{Call, Status, Time};

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

/// The conditions for a page of unfinished calls. Absent fields match all calls.
#[derive(Debug, Clone, Default)]
pub struct PendingFilter {
    /// The session of the calls.
    pub session: Option<String>,
    /// The batch of the calls.
    pub batch_id: Option<Uuid>,
    /// The tool of the calls.
    pub name: Option<String>,
    /// The ids of the calls.
    pub ids: Option<Vec<Uuid>>,
    /// Newer than this call, the last one of the previous page.
    pub after: Uuid,
    /// Maximum number of calls in the page.
    pub limit: u32,
}

impl Store {
    /// Returns a page of unfinished calls with the names of their tools, oldest first. A name that is too long for a
    /// tool may be truncated.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn pending_calls(&self, filter: &PendingFilter) -> Result<Vec<(Uuid, String)>, StoreError> {
        let PendingFilter { session, batch_id, name, ids, after, limit } = filter;
        let mut query = self.db.read("SELECT id, tool FROM tool_calls WHERE status <> 2 AND status < 2 AND tenant = ");
        query = query
            .push_bind(&self.tenant)
            .push_some(" AND session = ", session.as_ref())
            .push_some(" AND batch_id = ", *batch_id)
            .push_some(" AND tool = ", name.as_deref().map(codec::indexed_name));
        if let Some(ids) = ids {
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            query = query.push(" AND ").push_calls(["shard", "id"], ids).uncached();
        }
        query.push(" AND id > ").push_bind(*after).push(" ORDER BY id LIMIT ").push_bind(i64::from(*limit)).all().await
    }

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
        let query = self.db.calls(&[id]);
        query.push(" AND tenant = ").push_bind(&self.tenant).optional().await
    }

    pub(super) async fn rows_of(&self, ids: &[Uuid]) -> Result<Vec<CallRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.db.calls(ids).push(" AND tenant = ").push_bind(&self.tenant).all().await
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

    /// Returns a page of calls, newest first. Large calls can make the page shorter than `limit`, down to one call;
    /// then the flag is `true`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls(&self, filter: &CallFilter) -> Result<(Vec<Call>, bool), StoreError> {
        let rows: Vec<CallRow> = page(self, filter, self.db.read(codec::SELECT.as_str())).all().await?;
        let (found, mut bytes) = (rows.len(), 0);
        let fitting = rows.into_iter().enumerate().take_while(|(index, row)| {
            bytes += row.bytes();
            bytes <= MAX_BYTES || *index == 0
        });
        let mut calls = fitting.map(|(_, row)| row.decode()).collect::<Result<Vec<_>, _>>()?;
        let is_cut = calls.len() < found;
        self.show_callbacks(&mut calls).await?;
        Ok((calls, is_cut))
    }
}

/// Completes a query for a page of calls.
fn page<'q>(store: &Store, filter: &CallFilter, query: Query<'q>) -> Query<'q> {
    let CallFilter { session, batch_id, name, status, since, until, before, limit } = filter;
    query
        .push("tenant = ")
        .push_bind(&store.tenant)
        .push_some(" AND session = ", session.as_ref())
        .push_some(" AND batch_id = ", *batch_id)
        .push_some(" AND tool = ", name.as_deref().map(codec::indexed_name))
        .push_some(" AND status = ", status.map(codec::status_number))
        .push_some(" AND created_at >= ", *since)
        .push_some(" AND created_at < ", *until)
        .push_some(" AND id < ", *before)
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(*limit))
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
    let query = db.read("SELECT id, status, attempt, seq, node FROM tool_calls WHERE ");
    let query = query.push_calls(["shard", "id"], ids);
    let reached = |(id, status, attempt, seq, node)| StoredVersion { id, status, attempt, seq, node };
    Ok(query.all().await?.into_iter().map(reached).collect())
}

impl Db {
    /// Creates a query for these calls of any tenant.
    pub(super) fn calls(&self, ids: &[Uuid]) -> Query<'_> {
        self.read(codec::SELECT.as_str()).push_calls(["shard", "id"], ids)
    }
}
