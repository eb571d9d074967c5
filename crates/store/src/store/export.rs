//! Export of all calls, oldest first: ids and sizes are read first, then the calls in portions that fit into memory.
//! Each statement reads at most one page of rows, so an export can run next to a running service.

use std::collections::VecDeque;

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::{Store, StoreError};
use toolpost_core::domain::{Call, Time};

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
        let mut rows: Vec<CallRow> = self.store.db.calls(&ids).uncached().all().await?;
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
        let query = self.store.db.read(
            "SELECT id, tool, created_at, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) \
             FROM tool_calls WHERE tenant = ",
        );
        let session = self.filter.session.as_ref().map(|session| session.replace('\0', "\u{fffd}"));
        let query = query.push_bind(&self.store.tenant).push(" AND id > ").push_bind(self.after);
        let query = query.push_some(" AND session = ", session).push(" ORDER BY id LIMIT ").push_bind(PAGE);
        let rows: Vec<(Uuid, String, Time, i64)> = query.all().await?;
        self.is_over = rows.len() < PAGE as usize;
        let latest = self.filter.until.map(|until| codec::first_id_at(until.plus_millis(SLACK_MS)));
        let name = self.filter.name.as_deref().map(codec::indexed_name);
        for (id, tool, created_at, size) in rows {
            self.after = id;
            if latest.is_some_and(|latest| id >= latest) {
                self.is_over = true;
                break;
            }
            let is_in_time = self.filter.since.is_none_or(|since| created_at >= since)
                && self.filter.until.is_none_or(|until| created_at < until);
            if is_in_time && name.as_deref().is_none_or(|name| name == tool) {
                self.wanted.push_back((id, size));
            }
        }
        Ok(())
    }
}
