//! Export of all calls, oldest first: ids and sizes are read first, then the calls in portions that fit into memory.
//! Each statement reads at most one page of rows, so an export can run next to a running service.

use std::collections::VecDeque;

use sqlx::QueryBuilder;
use uuid::Uuid;

use super::codec::{self, CallRow};
use super::events::by_ids;
use super::{Store, StoreError, db};
use crate::domain::{Call, Time};

/// Maximum number of ids read by one statement.
const PAGE: i64 = 1000;
/// Maximum number and bytes of calls read by one statement. A larger call is read on its own.
const PORTION: usize = 256;
const PORTION_BYTES: i64 = 8 * 1024 * 1024;
/// Maximum difference between the time in an id and the time of acceptance, in milliseconds.
const SLACK_MS: u64 = 60 * 60 * 1000;

/// The conditions for exported calls. Absent fields match all calls.
#[derive(Debug, Clone, Default)]
pub struct ExportFilter {
    /// The session of the calls.
    pub session: Option<String>,
    /// The tool of the calls.
    pub name: Option<String>,
    /// Accepted at or after this time.
    pub since: Option<Time>,
    /// Accepted before this time.
    pub until: Option<Time>,
}

/// An iteration over all matching calls.
#[derive(Debug)]
pub struct Export {
    store: Store,
    filter: ExportFilter,
    /// The last id that was examined.
    after: Uuid,
    /// Ids of matching calls that were not read yet, with their sizes.
    wanted: VecDeque<(Uuid, i64)>,
    is_over: bool,
}

type Looked = (Uuid, String, i64, i64);

impl Store {
    /// Starts an export of all matching calls, oldest first.
    #[must_use]
    pub fn export(&self, filter: ExportFilter) -> Export {
        let earliest = filter.since.map(|since| Time(since.0.saturating_sub(SLACK_MS.cast_signed() * 1000)));
        let after = earliest.map_or(Uuid::nil(), codec::first_id_at);
        Export { store: self.clone(), filter, after, wanted: VecDeque::new(), is_over: false }
    }
}

impl Export {
    /// Returns the next calls, or `None` at the end. A call that cannot be decoded is an error in the list.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn next(&mut self) -> Result<Option<Vec<Result<Call, StoreError>>>, StoreError> {
        while self.wanted.is_empty() {
            if self.is_over {
                return Ok(None);
            }
            self.look().await?;
        }
        let (mut ids, mut bytes) = (Vec::new(), 0);
        while let Some((id, size)) = self.wanted.front().copied()
            && (ids.is_empty() || ids.len() < PORTION && bytes + size <= PORTION_BYTES)
        {
            bytes += size;
            ids.push(id);
            self.wanted.pop_front();
        }
        let mut rows: Vec<CallRow> = db::on_reader!(&self.store.db, pool => by_ids(&ids).build_query_as().persistent(false).fetch_all(pool).await?);
        rows.sort_unstable_by_key(|row| row.id);
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            let mut call = row.decode();
            if let Ok(call) = &mut call {
                self.store.show_callbacks(std::slice::from_mut(call)).await?;
            }
            calls.push(call);
        }
        Ok(Some(calls))
    }

    /// Examines the next page of ids.
    async fn look(&mut self) -> Result<(), StoreError> {
        let rows: Vec<Looked> =
            db::on_reader!(&self.store.db, pool => self.page().build_query_as().fetch_all(pool).await?);
        self.is_over = rows.len() < PAGE as usize;
        let latest = self.filter.until.map(|until| codec::first_id_at(until.plus_millis(SLACK_MS)));
        let name = self.filter.name.as_deref().map(codec::indexed_name);
        for (id, tool, created_at, size) in rows {
            self.after = id;
            if latest.is_some_and(|latest| id >= latest) {
                self.is_over = true;
                break;
            }
            let is_in_time = self.filter.since.is_none_or(|since| created_at >= since.0)
                && self.filter.until.is_none_or(|until| created_at < until.0);
            if is_in_time && name.as_deref().is_none_or(|name| name == tool) {
                self.wanted.push_back((id, size));
            }
        }
        Ok(())
    }

    fn page<D: sqlx::Database>(&self) -> QueryBuilder<D>
    where
        String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
        i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
        Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    {
        let mut query = QueryBuilder::<D>::new(
            "SELECT id, tool, created_at, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) \
             FROM tool_calls WHERE tenant = ",
        );
        query.push_bind(self.store.tenant.as_str().to_owned()).push(" AND id > ").push_bind(self.after);
        if let Some(session) = &self.filter.session {
            query.push(" AND session = ").push_bind(session.replace('\0', "\u{fffd}"));
        }
        query.push(" ORDER BY id LIMIT ").push_bind(PAGE);
        query
    }
}
