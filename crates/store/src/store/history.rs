//! Pages of the history of calls, filtered by any combination of conditions.
//!
//! Each condition has an index whose entries are in the order of ids, newest first (`IndexPath`). A page reads a
//! window of entries from the index of each condition and continues with the one that has the fewest entries; the other
//! conditions are checked on the rows of its calls. Windows and their number are bounded. A page with few matches
//! among many entries is therefore short, and its cursor continues after the last entry that was checked.

use std::collections::HashSet;

use uuid::Uuid;

use super::calls::CallFilter;
use super::codec::{self, CallRow};
use super::query::Query;
use super::{Store, StoreError};
use crate::store::Db;
use toolpost_core::domain::{AllowList, Call, Code, Phase, Status, Time};

mod paths;
pub mod search;
pub mod words;

use paths::IndexPath;

/// Maximum number of entries in a window.
const WINDOW: usize = 1000;
/// Maximum number of windows of a page.
const MAX_WINDOWS: usize = 4;
/// Number of rows that are checked together.
const CHUNK: usize = 250;
/// Maximum bytes of stored calls in a page of more than one call, and in a group of calls that is checked.
const MAX_BYTES: i64 = 8 * 1024 * 1024;

/// The conditions for a page of the history. Absent fields match all calls.
#[derive(Debug, Clone, Default)]
pub struct HistoryFilter {
    /// The conditions that the list of calls always had, and the limit of the page.
    pub calls: CallFilter,
    /// The error code of failed calls.
    pub code: Option<Code>,
    /// The phase of the calls.
    pub phase: Option<Phase>,
    /// The call that made the calls.
    pub parent: Option<Uuid>,
    /// The shortest duration of ended calls, in milliseconds.
    pub min_duration_ms: Option<u64>,
    /// Words in the arguments or the output of the calls; see [`words::of_query`].
    pub words: Vec<String>,
}

/// A page of the history.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// The calls, newest first.
    pub calls: Vec<Call>,
    /// The last call that was checked, if more may follow.
    pub next: Option<Uuid>,
}

/// Entries of an index: ids, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entries {
    ids: Vec<Uuid>,
    /// The entries are complete down to this id; `None` if no more follow.
    frontier: Option<Uuid>,
}

impl Entries {
    /// Returns the number of entries if they are complete, and else the id that they reach: the fewer and the older, the
    /// better.
    fn rank(&self) -> (bool, usize, Option<Uuid>) {
        match self.frontier {
            None => (false, self.ids.len(), None),
            Some(frontier) => (true, 0, Some(frontier)),
        }
    }

    /// Returns `true` if a call without an entry does not match.
    fn covers(&self, id: Uuid) -> bool {
        self.frontier.is_none_or(|frontier| id >= frontier)
    }
}

impl HistoryFilter {
    /// Returns the ids between which all matching calls are: at or after the first, and before the second.
    fn range(&self) -> (Uuid, Option<Uuid>) {
        // The first bits of an id are the milliseconds of `created_at`.
        let since = self.calls.since.map_or(Uuid::nil(), codec::first_id_at);
        let until = self.calls.until.map(|until| codec::first_id_at(Time(until.0.saturating_add(999))));
        let before = self.calls.before;
        (since, [until, before].into_iter().flatten().min())
    }

    /// Returns `true` if rows must be decoded to check the conditions.
    fn is_checked_on_calls(&self) -> bool {
        self.phase.is_some_and(|phase| phase != Phase::Done) || self.min_duration_ms.is_some() || !self.words.is_empty()
    }

    /// Creates the query that checks the columns of these calls.
    fn check<'s>(&self, store: &'s Store, ids: &[Uuid]) -> Query<'s> {
        let Self { calls, code, phase, parent, min_duration_ms, .. } = self;
        let CallFilter { session, batch_id, name, status, since, until, .. } = calls;
        let size = "SELECT id, tool, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) FROM tool_calls";
        let mut query = store.db.read(size).push(" WHERE ").push_calls(["shard", "id"], ids).push(" AND tenant = ");
        query = query
            .push_bind(store.tenant())
            .push_some(" AND session = ", session.as_ref())
            .push_some(" AND batch_id = ", *batch_id)
            .push_some(" AND tool = ", name.as_deref().map(codec::indexed_name))
            .push_some(" AND status = ", status.map(codec::status_number))
            .push_some(" AND code = ", code.map(codec::code_number))
            .push_some(" AND parent = ", *parent)
            .push_some(" AND created_at >= ", *since)
            .push_some(" AND created_at < ", *until);
        if *phase == Some(Phase::Done) || min_duration_ms.is_some() {
            query = query.push(" AND status > 1");
        }
        let least = min_duration_ms.filter(|least| *least > 0);
        // `+ 0` keeps SQLite from the index of durations, whose range may have most calls.
        query.push_some(" AND slow + 0 >= ", least.map(codec::duration_class)).push(" ORDER BY id DESC")
    }

    /// Returns `true` if the call matches the conditions that no column has.
    fn matches(&self, call: &Call) -> bool {
        self.phase.is_none_or(|phase| call.phase == phase)
            && self.min_duration_ms.is_none_or(|least| call.duration_ms().is_some_and(|ran| ran >= least))
            && (self.words.is_empty() || words::has_all(call, &self.words))
    }
}

impl Store {
    /// Returns a page of calls, newest first. With an allow-list, only calls of these tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn history(
        &self,
        filter: &HistoryFilter,
        allowed: Option<&AllowList>,
    ) -> Result<HistoryPage, StoreError> {
        let limit = filter.calls.limit as usize;
        let (since, mut before) = filter.range();
        let paths = IndexPath::paths_for(filter, self.tenant());
        let is_exact = paths.len() == 1 && paths[0].is_exact(filter) && allowed.is_none();
        let window = if is_exact { limit + 1 } else { WINDOW };
        let mut page = PageBuilder { store: self, filter, allowed, limit, bytes: 0, calls: Vec::new() };
        for _ in 0..MAX_WINDOWS {
            let Entries { ids, frontier } = self.window(&paths, (since, before), window).await?;
            for chunk in ids.chunks(CHUNK) {
                if page.add(chunk).await? {
                    return page.finish(None).await;
                }
            }
            before = frontier;
            if frontier.is_none() || is_exact {
                break;
            }
        }
        page.finish(before).await
    }

    /// Reads a window of one index.
    async fn entries(
        &self,
        path: &IndexPath,
        range: (Uuid, Option<Uuid>),
        window: usize,
    ) -> Result<Entries, StoreError> {
        let IndexPath::Word(word) = path else { return path.read(self, range, window).await };
        let unfinished = IndexPath::Unfinished(&[0, 1]).read(self, range, window).await?;
        search::read(self, *word, range, window, unfinished).await
    }

    /// Reads a window of each index, and returns the entries that may match all conditions.
    async fn window(
        &self,
        paths: &[IndexPath],
        range: (Uuid, Option<Uuid>),
        window: usize,
    ) -> Result<Entries, StoreError> {
        let mut read = Vec::with_capacity(paths.len());
        for path in paths {
            let entries = self.entries(path, range, window).await?;
            if entries.ids.is_empty() && entries.frontier.is_none() {
                return Ok(Entries::default());
            }
            read.push(entries);
        }
        let best = read.iter().enumerate().min_by_key(|(_, entries)| entries.rank()).map(|(index, _)| index);
        let Some(best) = best else { return Ok(Entries::default()) };
        let Entries { mut ids, frontier } = read.swap_remove(best);
        for other in &read {
            let there: HashSet<Uuid> = other.ids.iter().copied().collect();
            ids.retain(|id| !other.covers(*id) || there.contains(id));
        }
        Ok(Entries { ids, frontier })
    }
}

impl Store {
    /// Returns the database's plans of the queries for the indexes of a filter.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn history_plans(&self, filter: &HistoryFilter) -> Result<Vec<String>, StoreError> {
        let mut plans = Vec::new();
        for path in IndexPath::paths_for(filter, self.tenant()) {
            let query = match path {
                IndexPath::Word(word) => search::rows(self, word, Uuid::max(), 1..=4),
                _ => path.query(self, filter.range(), WINDOW),
            };
            plans.push(self.plan(query).await?);
        }
        Ok(plans)
    }

    /// Returns the database's plan of the query that checks calls.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn history_check_plan(&self, filter: &HistoryFilter, ids: &[Uuid]) -> Result<String, StoreError> {
        self.plan(filter.check(self, ids)).await
    }

    /// Returns the database's plan of the query that reads calls by their ids.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls_plan(&self, ids: &[Uuid]) -> Result<String, StoreError> {
        self.plan(self.db.calls(ids)).await
    }

    async fn plan(&self, query: Query<'_>) -> Result<String, StoreError> {
        let lines: Vec<String> = match &self.db {
            Db::Postgres(_) => query.prefixed("EXPLAIN ").column().await?,
            Db::Sqlite(_) => {
                let rows: Vec<(i64, i64, i64, String)> = query.prefixed("EXPLAIN QUERY PLAN ").all().await?;
                rows.into_iter().map(|(.., detail)| detail).collect()
            }
        };
        Ok(lines.join("\n"))
    }
}

/// The calls of a page so far.
struct PageBuilder<'a> {
    store: &'a Store,
    filter: &'a HistoryFilter,
    allowed: Option<&'a AllowList>,
    limit: usize,
    bytes: i64,
    calls: Vec<Call>,
}

impl PageBuilder<'_> {
    /// Adds the matching calls of these, newest first. Returns `true` if the page is full, with one call more than its
    /// limit if there is one.
    async fn add(&mut self, ids: &[Uuid]) -> Result<bool, StoreError> {
        let mut matching = self.matching(ids).await?;
        while !matching.is_empty() {
            let missing = self.limit + 1 - self.calls.len();
            let max = if self.filter.is_checked_on_calls() { CHUNK } else { missing };
            let mut bytes = 0;
            let fitting = matching.iter().take(max).take_while(|(_, size)| {
                bytes += size;
                bytes <= MAX_BYTES
            });
            let rest = matching.split_off(fitting.count().max(1));
            let ids: Vec<Uuid> = matching.iter().map(|(id, _)| *id).collect();
            matching = rest;
            let mut rows: Vec<CallRow> = self.store.rows_of(&ids).await?;
            rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.id));
            for row in rows {
                let size = i64::try_from(row.bytes()).unwrap_or(i64::MAX);
                let call = row.decode()?;
                let is_allowed = self.allowed.is_none_or(|allowed| allowed.has(&call.name));
                if !is_allowed || !self.filter.matches(&call) {
                    continue;
                }
                self.bytes = self.bytes.saturating_add(size);
                self.calls.push(call);
                if self.calls.len() > self.limit || self.bytes > MAX_BYTES && self.calls.len() > 1 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns those of the calls whose columns match, newest first, with their sizes in bytes.
    async fn matching(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, i64)>, StoreError> {
        let mut rows: Vec<(Uuid, String, i64)> = self.filter.check(self.store, ids).uncached().all().await?;
        // A name in the column may be that of a tool that was found later.
        rows.retain(|(_, tool, _)| self.allowed.is_none_or(|allowed| allowed.has(tool)));
        Ok(rows.into_iter().map(|(id, _, size)| (id, size)).collect())
    }

    /// Returns the page. `frontier` is the last entry that was checked, if more follow.
    async fn finish(mut self, frontier: Option<Uuid>) -> Result<HistoryPage, StoreError> {
        let is_full = self.calls.len() > self.limit;
        // The last call of a page that became too large is left to the next page.
        let is_cut = !is_full && self.bytes > MAX_BYTES && self.calls.len() > 1;
        if is_full || is_cut {
            self.calls.pop();
        }
        let last = self.calls.last().filter(|_| is_full || is_cut).map(|call| call.id);
        self.store.show_callbacks(&mut self.calls).await?;
        Ok(HistoryPage { calls: self.calls, next: last.or(frontier) })
    }
}

/// Returns the statuses of unfinished calls in the phase of the filter; `None` if the phase does not limit the page to
/// them.
fn unfinished(filter: &HistoryFilter) -> Option<&'static [i16]> {
    match filter.phase? {
        Phase::Done => None,
        Phase::Arguments | Phase::Queued | Phase::Approval => Some(&[0]),
        Phase::Running | Phase::Retrying | Phase::External => Some(&[1]),
    }
}

/// Returns the status that limits the page to unfinished calls.
fn unfinished_status(status: Option<Status>) -> Option<&'static [i16]> {
    match status? {
        Status::Wait => Some(&[0]),
        Status::Doing => Some(&[1]),
        Status::Success | Status::Error => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_covers_the_milliseconds_of_both_times() {
        let of = |since, until| {
            let calls = CallFilter { since: Some(Time(since)), until: Some(Time(until)), ..CallFilter::default() };
            HistoryFilter { calls, ..HistoryFilter::default() }.range()
        };
        let id = |millis: u128| Uuid::from_u128(millis << 80);
        assert_eq!(of(5_000, 7_000), (id(5), Some(id(7))));
        assert_eq!(of(5_001, 7_001), (id(5), Some(id(8))));
    }

    #[test]
    fn complete_entries_are_preferred_over_many_and_old_over_new() {
        let entries = |ids: u128, frontier: Option<u128>| Entries {
            ids: (0..ids).map(Uuid::from_u128).collect(),
            frontier: frontier.map(Uuid::from_u128),
        };
        let mut all = vec![entries(9, Some(7)), entries(9, Some(3)), entries(5, None), entries(2, None)];
        all.sort_by_key(Entries::rank);
        assert_eq!(all, [entries(2, None), entries(5, None), entries(9, Some(3)), entries(9, Some(7))]);
    }
}
