//! Queries for events: of one call, or of all calls after a cursor.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::{Store, StoreError, Stores};
use toolpost_core::domain::event::{Event, EventKind, Reported, Stage};
use toolpost_core::domain::{Call, Cursor, Shard, Time};

/// A stored reported event: call, seq, position, kind, data.
type ReportedRow = (Uuid, i32, i64, String, String);

/// Maximum bytes of calls that are read together for their events. A larger commit is read on its own.
const MAX_BYTES: i64 = 4 * 1024 * 1024;

impl Stores {
    /// Returns up to `max` commits that follow this position in its shard.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn commits_after(&self, after: i64, max: u32) -> Result<Vec<Commit>, StoreError> {
        const SQL: &str = "SELECT first_pos, last_pos, at, calls FROM commits \
            WHERE shard = $1 AND last_pos > $2 ORDER BY last_pos LIMIT $3";
        let shard = codec::shard_column(Shard::of_position(after));
        let rows: Vec<(i64, i64, Time, Vec<u8>)> =
            self.db.read(SQL).bind(shard).bind(after).bind(i64::from(max)).all().await?;
        let commit = |(first_pos, last_pos, at, calls): (_, _, _, Vec<u8>)| Commit {
            first_pos,
            last_pos,
            at,
            calls: codec::split_ids(&calls),
        };
        Ok(rows.into_iter().map(commit).collect())
    }

    /// Returns the events of these calls of any tenant so far, in order. Calls that are not stored any more have none.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_of_any_tenant(&self, ids: &[Uuid]) -> Result<Vec<Event>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.db.calls(ids).all().await?;
        self.events_of_rows(rows).await
    }

    async fn events_of_rows(&self, rows: Vec<CallRow>) -> Result<Vec<Event>, StoreError> {
        let own: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut reported: HashMap<Uuid, Vec<ReportedRow>> = HashMap::new();
        for event in self.reported(&own).await? {
            reported.entry(event.0).or_default().push(event);
        }
        let mut found = Vec::with_capacity(rows.len() * 5);
        for row in rows {
            let own = reported.remove(&row.id).unwrap_or_default();
            found.extend(events(row, own)?);
        }
        found.sort_unstable_by_key(|event| event.pos);
        Ok(found)
    }

    /// Returns the reported events of calls whose rows were read before. They may include events of later commits,
    /// which [`events`] leaves out.
    async fn reported(&self, ids: &[Uuid]) -> Result<Vec<ReportedRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = self.db.read("SELECT call_id, seq, pos, kind, data FROM call_events WHERE ");
        query.push_calls(["shard", "call_id"], ids).all().await
    }

    /// Returns how many of these groups of calls, starting with the first, fit into memory together. The first group
    /// always counts.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn fitting_calls(&self, groups: impl ExactSizeIterator<Item = Vec<Uuid>>) -> Result<usize, StoreError> {
        if groups.len() < 2 {
            return Ok(groups.len());
        }
        let groups: Vec<Vec<Uuid>> = groups.collect();
        let ids: Vec<Uuid> = groups.iter().flatten().copied().collect();
        let sizes = self
            .db
            .read("SELECT id, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) FROM tool_calls WHERE ");
        let mut sizes: HashMap<Uuid, i64> = sizes.push_calls(["shard", "id"], &ids).all().await?.into_iter().collect();
        let mut bytes = 0;
        let fits = |calls: &&Vec<Uuid>| {
            // Each call is counted once.
            bytes += calls.iter().filter_map(|id| sizes.remove(id)).sum::<i64>();
            bytes <= MAX_BYTES
        };
        Ok(groups.iter().take_while(fits).count().max(1))
    }
}

impl Store {
    /// Returns all events of one call so far, in order, or `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_of(&self, id: Uuid) -> Result<Option<Vec<Event>>, StoreError> {
        let Some(row) = self.call_row(id).await? else { return Ok(None) };
        let reported = self.reported(&[id]).await?;
        Ok(Some(events(row, reported)?))
    }

    /// Returns the tenant's events after `after`, in the order of each shard, from at most `commits` commits of each
    /// shard. Also returns up to where they are complete.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_after(&self, after: &Cursor, commits: u32) -> Result<(Vec<Event>, Cursor), StoreError> {
        let mut until = after.clone();
        let mut pages = Vec::new();
        for newest in self.newest().await?.positions().iter().filter(|newest| !after.covers(**newest)) {
            pages.push(self.commits_after(after.position_in(Shard::of_position(*newest)), commits).await?);
        }
        let commits = merge_by_time(pages);
        let fitting = self.fitting_calls(commits.iter().map(|commit| commit.calls.clone())).await?;
        let commits = &commits[..fitting];
        if commits.is_empty() {
            return Ok((Vec::new(), until));
        }
        commits.iter().for_each(|commit| until.advance(commit.last_pos));
        let mut ids: Vec<Uuid> = commits.iter().flat_map(|commit| &commit.calls).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found = self.events_of_calls(&ids).await?;
        found.retain(|event| !after.covers(event.pos) && until.covers(event.pos));
        // A stable sort keeps the order of each shard, in which the positions are already.
        let commit_index = |event: &Event| commits.iter().position(|commit| commit.contains(event.pos));
        found.sort_by_cached_key(commit_index);
        Ok((found, until))
    }

    /// Returns all events of these calls so far, in order.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_of_calls(&self, ids: &[Uuid]) -> Result<Vec<Event>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.rows_of(ids).await?;
        self.events_of_rows(rows).await
    }
}

/// A stored commit.
#[derive(Debug)]
pub struct Commit {
    /// Position of the first event.
    pub first_pos: i64,
    /// Position of the last event.
    pub last_pos: i64,
    /// The calls that it wrote.
    pub calls: Vec<Uuid>,
    at: Time,
}

impl Commit {
    /// Returns `true` if the event at this position belongs to the commit.
    #[must_use]
    pub fn contains(&self, pos: i64) -> bool {
        (self.first_pos..=self.last_pos).contains(&pos)
    }
}

/// Merges the commits of several shards by time, and keeps the order within each shard.
fn merge_by_time(pages: Vec<Vec<Commit>>) -> Vec<Commit> {
    let mut pages: Vec<VecDeque<Commit>> = pages.into_iter().map(VecDeque::from).collect();
    let mut merged = Vec::with_capacity(pages.iter().map(VecDeque::len).sum());
    while let Some(page) = pages.iter_mut().filter(|page| !page.is_empty()).min_by_key(|page| page[0].at) {
        merged.extend(page.pop_front());
    }
    merged
}

/// Builds all events of a call: the status changes from its row, and the reported events. A commit between the two reads
/// may have brought reported events together with status changes that this row lacks, and the numbers of the events would
/// then be wrong. Each commit raises the number of the last event in the row, so the row tells which events belong to it.
fn events(row: CallRow, mut reported: Vec<ReportedRow>) -> Result<Vec<Event>, StoreError> {
    reported.retain(|(_, seq, ..)| *seq <= row.seq);
    let (accepted, started, settled) = (row.accepted_pos, row.started_pos, row.settled_pos);
    let call: Arc<Call> = Arc::new(row.decode()?);
    let mut stages = vec![(accepted, Stage::Accepted), (accepted + 1, Stage::Waiting)];
    stages.extend(started.map(|pos| (pos, Stage::Started)));
    stages.extend(settled.into_iter().flat_map(|pos| [(pos, Stage::Settled), (pos + 1, Stage::Result)]));
    for (_, seq, pos, kind, data) in reported {
        let kinds = [EventKind::Progress, EventKind::HookError];
        let kind = kinds.into_iter().find(|known| kind == known.as_str()).unwrap_or(EventKind::Status);
        let seq = u32::try_from(seq).unwrap_or(0);
        stages.push((pos, Stage::Reported(Arc::new(Reported { seq, kind, data }))));
    }
    stages.sort_unstable_by_key(|(pos, _)| *pos);
    let numbered = (1..).zip(stages);
    Ok(numbered.map(|(seq, (pos, stage))| Event { pos, seq, call: call.clone(), stage }).collect())
}
