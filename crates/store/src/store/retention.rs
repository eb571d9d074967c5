//! Deletion of expired calls, a few commits at a time, oldest first.
//!
//! A commit contains the ids of its calls, and the commit that ended a call contains its id. Iterating over the commits
//! therefore finds each ended call by its key, without a search; unfinished calls are skipped until their last commit.
//! The row of `retention` of a shard stores the progress. A node locks it to delete, and other nodes skip instead of waiting. The
//! statistics of commits are folded before the commits are deleted.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::query::Transaction;
use super::{Db, StoreError, Stores, codec};
use toolpost_core::domain::{Cursor, Time};

/// Maximum number of reported events, and maximum bytes of calls, deleted in one step: on SQLite the journal waits
/// meanwhile.
const MAX_EVENTS: i64 = 2000;
const MAX_BYTES: i64 = 32 * 1024 * 1024;

/// The kind of data to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionTarget {
    /// Ended calls with all their data, and the commits that contain them.
    Calls,
    /// Only the events that tools reported during ended calls.
    Events,
}

/// The number of rows deleted by one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneCounts {
    /// Number of calls.
    pub calls: u64,
    /// Number of reported events.
    pub events: u64,
    /// Whether another step may find more.
    pub is_unfinished: bool,
}

/// Locks the row and returns the positions up to which calls and events are deleted and statistics are folded. On
/// Postgres a locked row is skipped.
const HOLD_SQLITE: &str = "UPDATE retention SET calls_pos = calls_pos WHERE shard = $1 \
    RETURNING calls_pos, events_pos, (SELECT pos FROM stats_folded WHERE shard = $1)";
const HOLD_POSTGRES: &str = "UPDATE retention SET calls_pos = calls_pos \
    WHERE shard = (SELECT shard FROM retention WHERE shard = $1 FOR UPDATE SKIP LOCKED) \
    RETURNING calls_pos, events_pos, (SELECT pos FROM stats_folded WHERE shard = $1)";
const COMMITS: &str = "SELECT last_pos, at, calls FROM commits \
    WHERE shard = $1 AND last_pos > $2 AND last_pos <= $3 ORDER BY last_pos LIMIT $4";
const ENDED: &str = "SELECT id, settled_pos, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) \
    FROM tool_calls WHERE status > 1 AND ";
const PENDING: &str = "SELECT call_id FROM callbacks WHERE state = 0 AND ";
const DELETE_EVENTS: &str =
    "DELETE FROM call_events WHERE (shard, call_id, seq) IN (SELECT shard, call_id, seq FROM call_events WHERE ";
const DELETE_COMMITS: &str = "DELETE FROM commits WHERE shard = $1 AND last_pos > $2 AND last_pos <= $3";
/// The columns with the call of an event, a callback or a message.
const CALL_ID: [&str; 2] = ["shard", "call_id"];
const MOVE_CALLS: &str = "UPDATE retention SET calls_pos = $2 WHERE shard = $1";
const MOVE_EVENTS: &str = "UPDATE retention SET events_pos = $2 WHERE shard = $1";

impl Stores {
    /// Deletes about `max` of the calls that ended before `before`, or their events. Keeps unfinished calls, and calls
    /// whose callback is still pending. Does nothing while another node deletes.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails; then nothing is deleted.
    pub async fn prune(&self, part: RetentionTarget, before: Time, max: u32) -> Result<PruneCounts, StoreError> {
        self.fold_stats().await?;
        let mut pruned = PruneCounts::default();
        for shard in self.db.read("SELECT shard FROM retention ORDER BY shard").column::<i16>().await? {
            let step = self.prune_shard(shard, part, before, max).await?;
            pruned.calls += step.calls;
            pruned.events += step.events;
            pruned.is_unfinished |= step.is_unfinished;
        }
        Ok(pruned)
    }

    async fn prune_shard(
        &self,
        shard: i16,
        part: RetentionTarget,
        before: Time,
        max: u32,
    ) -> Result<PruneCounts, StoreError> {
        let hold = match &self.db {
            Db::Sqlite(_) => HOLD_SQLITE,
            Db::Postgres(_) => HOLD_POSTGRES,
        };
        let pruned = self.db.transaction(async |transaction| {
            let held: Option<(i64, i64, i64)> = transaction.query(hold).bind(shard).optional().await?;
            let Some((calls_pos, events_pos, folded)) = held else { return Ok(None) };
            let from = if part == RetentionTarget::Calls { calls_pos } else { events_pos.max(calls_pos) };
            let query = transaction.query(COMMITS).bind(shard).bind(from).bind(folded).bind(i64::from(max));
            let mut range = CommitRange::of(query.all().await?, before, max as usize);
            let ended = range.ended_calls(transaction, part).await?;
            let Some(until) = range.until() else { return Ok(None) };
            // A call that ended after this range is deleted with the commit that ended it.
            let ended: Vec<Uuid> = ended.into_iter().filter(|(_, pos, _)| *pos <= until).map(|(id, ..)| id).collect();
            let mut pruned = PruneCounts { is_unfinished: range.may_have_more, ..PruneCounts::default() };
            if !ended.is_empty() {
                let events =
                    transaction.query(DELETE_EVENTS).push_calls(CALL_ID, &ended).push(" LIMIT ").push_bind(MAX_EVENTS);
                pruned.events = events.push(")").uncached().execute().await?;
                if pruned.events >= MAX_EVENTS.unsigned_abs() {
                    // The next step deletes the remaining events and the calls.
                    return Ok(Some(PruneCounts { is_unfinished: true, ..pruned }));
                }
            }
            if part == RetentionTarget::Events {
                transaction.query(MOVE_EVENTS).bind(shard).bind(until).execute().await?;
                return Ok(Some(pruned));
            }
            if !ended.is_empty() {
                for_calls(transaction, "DELETE FROM inbox WHERE ", CALL_ID, &ended).await?;
                for_calls(transaction, "DELETE FROM callbacks WHERE ", CALL_ID, &ended).await?;
                for_calls(transaction, "DELETE FROM approvals WHERE ", CALL_ID, &ended).await?;
                pruned.calls = for_calls(transaction, "DELETE FROM tool_calls WHERE ", ["shard", "id"], &ended).await?;
            }
            transaction.query(DELETE_COMMITS).bind(shard).bind(from).bind(until).execute().await?;
            transaction.query(MOVE_CALLS).bind(shard).bind(until).execute().await?;
            Ok(Some(pruned))
        });
        Ok(pruned.await?.unwrap_or_default())
    }

    /// Returns the positions up to which events are deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forgotten_until(&self) -> Result<Cursor, StoreError> {
        const SQL: &str = "SELECT calls_pos, events_pos FROM retention";
        let rows: Vec<(i64, i64)> = self.db.read(SQL).all().await?;
        Ok(Cursor::at(rows.into_iter().map(|(calls, events)| calls.max(events))))
    }

    /// Deletes messages to calls that no longer exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_messages_of_nobody(&self, before: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id < $1 AND NOT EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.shard = inbox.shard AND c.id = inbox.call_id)";
        self.db.write(SQL).bind(codec::first_id_at(before)).execute().await.map(drop)
    }
}

/// Consecutive commits that have expired.
#[derive(Debug)]
struct CommitRange {
    commits: Vec<(i64, Vec<Uuid>)>,
    may_have_more: bool,
}

impl CommitRange {
    fn of(read: Vec<(i64, Time, Vec<u8>)>, before: Time, max: usize) -> Self {
        let (there, mut calls) = (read.len(), 0);
        let old = read.into_iter().take_while(|(_, at, ids)| {
            let is_within_batch = calls < max;
            calls += ids.len() / 16;
            is_within_batch && *at < before
        });
        let commits: Vec<(i64, Vec<Uuid>)> = old.map(|(pos, _, ids)| (pos, codec::split_ids(&ids))).collect();
        let may_have_more = !commits.is_empty() && (calls >= max || commits.len() == there);
        Self { commits, may_have_more }
    }

    fn ids(&self) -> Vec<Uuid> {
        let ids: HashSet<Uuid> = self.commits.iter().flat_map(|(_, ids)| ids).copied().collect();
        ids.into_iter().collect()
    }

    /// Returns the id, last position and size of the ended calls. For the deletion of calls, also ends the range before
    /// calls that must stay, and before it exceeds [`MAX_BYTES`].
    async fn ended_calls(
        &mut self,
        transaction: &mut Transaction<'_>,
        part: RetentionTarget,
    ) -> Result<Vec<(Uuid, i64, i64)>, StoreError> {
        let ids = self.ids();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ended: Vec<(Uuid, i64, i64)> =
            transaction.query(ENDED).push_calls(["shard", "id"], &ids).uncached().all().await?;
        if part == RetentionTarget::Calls && !ended.is_empty() {
            self.end_within(&ended.iter().map(|(id, _, bytes)| (*id, *bytes)).collect(), MAX_BYTES);
            let ended = ended.iter().map(|(id, ..)| id);
            let pending = transaction.query(PENDING).push_calls(CALL_ID, ended).uncached();
            self.end_before(&pending.column().await?.into_iter().collect());
        }
        Ok(ended)
    }

    /// Ends the range before the first commit that contains one of these calls.
    fn end_before(&mut self, awaited: &HashSet<Uuid>) {
        let index = self.commits.iter().position(|(_, ids)| ids.iter().any(|id| awaited.contains(id)));
        if let Some(index) = index {
            self.commits.truncate(index);
            self.may_have_more = false;
        }
    }

    /// Ends the range before the calls exceed `max` bytes, but after the first commit. `sizes` has the sizes of the
    /// calls.
    fn end_within(&mut self, sizes: &HashMap<Uuid, i64>, max: i64) {
        let mut bytes = 0;
        let index = self.commits.iter().position(|(_, ids)| {
            bytes += ids.iter().filter_map(|id| sizes.get(id)).sum::<i64>();
            bytes > max
        });
        if let Some(index) = index.map(|index| index.max(1)).filter(|index| *index < self.commits.len()) {
            self.commits.truncate(index);
            self.may_have_more = true;
        }
    }

    /// Returns the position of the last commit in the range.
    fn until(&self) -> Option<i64> {
        self.commits.last().map(|(pos, _)| *pos)
    }
}

/// Runs a statement that ends with the condition that a row belongs to one of these calls. `columns` are those of the
/// shard and of the id. Returns the number of changed rows.
async fn for_calls(
    transaction: &mut Transaction<'_>,
    sql: &'static str,
    columns: [&str; 2],
    calls: &[Uuid],
) -> Result<u64, StoreError> {
    transaction.query(sql).push_calls(columns, calls).uncached().execute().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(pos: i64, at: i64, calls: &[u128]) -> (i64, Time, Vec<u8>) {
        (pos, Time(at), codec::concat_ids(&calls.iter().map(|id| Uuid::from_u128(*id)).collect::<Vec<_>>()))
    }

    #[test]
    fn range_ends_at_a_recent_commit_or_the_maximum() {
        let read = || vec![commit(2, 10, &[1]), commit(4, 11, &[2, 3]), commit(6, 30, &[4]), commit(8, 12, &[5])];
        let young = CommitRange::of(read(), Time(20), 100);
        assert_eq!(
            (young.until(), young.may_have_more),
            (Some(4), false),
            "a young commit keeps an older one behind it"
        );
        let enough = CommitRange::of(read(), Time(99), 2);
        assert_eq!((enough.until(), enough.may_have_more), (Some(4), true));
        let all = CommitRange::of(read(), Time(99), 100);
        assert_eq!((all.until(), all.may_have_more), (Some(8), true));
        assert_eq!(
            (CommitRange::of(Vec::new(), Time(99), 9).until(), CommitRange::of(read(), Time(5), 9).until()),
            (None, None)
        );
    }

    #[test]
    fn large_calls_are_deleted_in_portions() {
        let range = || CommitRange::of(vec![commit(2, 1, &[1]), commit(4, 1, &[2]), commit(6, 1, &[3])], Time(9), 99);
        let ending = |sizes: [i64; 3]| {
            let mut range = range();
            let sizes = sizes.into_iter().zip(1..).map(|(bytes, id)| (Uuid::from_u128(id), bytes)).collect();
            range.end_within(&sizes, 10);
            (range.until(), range.may_have_more)
        };
        assert_eq!(ending([4, 6, 1]), (Some(4), true));
        assert_eq!(ending([11, 1, 1]), (Some(2), true));
        assert_eq!(ending([1, 1, 1]), (Some(6), true));
    }

    #[test]
    fn pending_callback_keeps_its_commit_and_later_ones() {
        let mut range = CommitRange::of(vec![commit(2, 1, &[1]), commit(4, 1, &[2]), commit(6, 1, &[1])], Time(9), 9);
        range.end_before(&HashSet::from([Uuid::from_u128(2)]));
        assert_eq!((range.until(), range.may_have_more, range.ids()), (Some(2), false, vec![Uuid::from_u128(1)]));
    }
}
