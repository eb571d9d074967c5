//! Deletion of expired calls, a few commits at a time, oldest first.
//!
//! A commit contains the ids of its calls, and the commit that ended a call contains its id. Iterating over the commits
//! therefore finds each ended call by its key, without a search; unfinished calls are skipped until their last commit.
//! The row of `retention` stores the progress. A node locks it to delete, and other nodes skip instead of waiting. The
//! statistics of commits are folded before the commits are deleted.

use std::collections::{HashMap, HashSet};

use sqlx::{Connection, QueryBuilder};
use uuid::Uuid;

use super::db::in_transaction;
use super::{Db, StoreError, Stores, codec, db};
use crate::domain::Time;

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
pub struct Pruned {
    /// Number of calls.
    pub calls: u64,
    /// Number of reported events.
    pub events: u64,
    /// Whether another step may find more.
    pub is_unfinished: bool,
}

/// Locks the row and returns the positions up to which calls and events are deleted and statistics are folded. On
/// Postgres a locked row is skipped.
const HOLD_SQLITE: &str = "UPDATE retention SET calls_pos = calls_pos WHERE one = 1 \
    RETURNING calls_pos, events_pos, (SELECT pos FROM stats_folded)";
const HOLD_POSTGRES: &str = "UPDATE retention SET calls_pos = calls_pos \
    WHERE one = (SELECT one FROM retention WHERE one = 1 FOR UPDATE SKIP LOCKED) \
    RETURNING calls_pos, events_pos, (SELECT pos FROM stats_folded)";
const COMMITS: &str = "SELECT last_pos, at, calls FROM commits WHERE last_pos > $1 AND last_pos <= $2 \
    ORDER BY last_pos LIMIT $3";
const ENDED: &str = "SELECT id, settled_pos, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) \
    FROM tool_calls WHERE status > 1 AND id";
const DELETE_COMMITS: &str = "DELETE FROM commits WHERE last_pos > $1 AND last_pos <= $2";
const MOVE_CALLS: &str = "UPDATE retention SET calls_pos = $1 WHERE one = 1";
const MOVE_EVENTS: &str = "UPDATE retention SET events_pos = $1 WHERE one = 1";

impl Stores {
    /// Deletes about `most` of the calls that ended before `before`, or their events. Keeps unfinished calls, and calls
    /// whose callback is still pending. Does nothing while another node deletes.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails; then nothing is deleted.
    pub async fn prune(&self, part: RetentionTarget, before: Time, most: u32) -> Result<Pruned, StoreError> {
        self.fold_stats().await?;
        let hold = match &self.db {
            Db::Sqlite(_) => HOLD_SQLITE,
            Db::Postgres(_) => HOLD_POSTGRES,
        };
        let pruned = in_transaction!(&self.db, transaction => 'step: {
            let held: Option<(i64, i64, i64)> = sqlx::query_as(hold).fetch_optional(&mut *transaction).await?;
            let Some((calls_pos, events_pos, folded)) = held else { break 'step None };
            let from = if part == RetentionTarget::Calls { calls_pos } else { events_pos.max(calls_pos) };
            let commits: Vec<(i64, i64, Vec<u8>)> = sqlx::query_as(COMMITS)
                .bind(from).bind(folded).bind(i64::from(most))
                .fetch_all(&mut *transaction).await?;
            let mut range = CommitRange::of(commits, before, most as usize);
            let ended: Vec<(Uuid, i64, i64)> = match range.ids().as_slice() {
                [] => Vec::new(),
                ids => {
                    let mut query = with_ids(ENDED, ids);
                    query.build_query_as().persistent(false).fetch_all(&mut *transaction).await?
                }
            };
            if part == RetentionTarget::Calls && !ended.is_empty() {
                range.end_within(&ended.iter().map(|(id, _, bytes)| (*id, *bytes)).collect(), MAX_BYTES);
                let ids: Vec<Uuid> = ended.iter().map(|(id, ..)| *id).collect();
                let mut query = with_ids("SELECT call_id FROM callbacks WHERE state = 0 AND call_id", &ids);
                let awaited: Vec<(Uuid,)> =
                    query.build_query_as().persistent(false).fetch_all(&mut *transaction).await?;
                range.end_before(&awaited.into_iter().map(|(id,)| id).collect());
            }
            let Some(until) = range.until() else { break 'step None };
            // A call that ended after this range is deleted with the commit that ended it.
            let ended: Vec<Uuid> = ended.into_iter().filter(|(_, pos, _)| *pos <= until).map(|(id, ..)| id).collect();
            let mut pruned = Pruned { is_unfinished: range.may_have_more, ..Pruned::default() };
            if !ended.is_empty() {
                let mut query = delete_events(&ended);
                pruned.events = query.build().persistent(false).execute(&mut *transaction).await?.rows_affected();
                if pruned.events >= MAX_EVENTS.unsigned_abs() {
                    // The next step deletes the remaining events and the calls.
                    break 'step Some(Pruned { is_unfinished: true, ..pruned });
                }
            }
            if part == RetentionTarget::Calls {
                for head in ["DELETE FROM inbox WHERE call_id", "DELETE FROM callbacks WHERE call_id"] {
                    if !ended.is_empty() {
                        with_ids(head, &ended).build().persistent(false).execute(&mut *transaction).await?;
                    }
                }
                if !ended.is_empty() {
                    let mut query = with_ids("DELETE FROM tool_calls WHERE id", &ended);
                    pruned.calls = query.build().persistent(false).execute(&mut *transaction).await?.rows_affected();
                }
                sqlx::query(DELETE_COMMITS).bind(from).bind(until).execute(&mut *transaction).await?;
            }
            let forward = if part == RetentionTarget::Calls { MOVE_CALLS } else { MOVE_EVENTS };
            sqlx::query(forward).bind(until).execute(&mut *transaction).await?;
            Some(pruned)
        })?;
        Ok(pruned.unwrap_or_default())
    }

    /// Returns the position up to which events are deleted; 0 if nothing is deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forgotten_until(&self) -> Result<i64, StoreError> {
        const SQL: &str = "SELECT calls_pos, events_pos FROM retention WHERE one = 1";
        let (calls, events): (i64, i64) = db::on_reader!(&self.db, pool => sqlx::query_as(SQL).fetch_one(pool).await)?;
        Ok(calls.max(events))
    }

    /// Deletes messages to calls that no longer exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_messages_of_nobody(&self, before: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id < $1 AND NOT EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.id = inbox.call_id)";
        let before = codec::first_id_at(before);
        db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(before).execute(pool).await.map(drop))?;
        Ok(())
    }
}

/// Consecutive commits that have expired.
#[derive(Debug)]
struct CommitRange {
    commits: Vec<(i64, Vec<Uuid>)>,
    may_have_more: bool,
}

impl CommitRange {
    fn of(read: Vec<(i64, i64, Vec<u8>)>, before: Time, most: usize) -> Self {
        let (there, mut calls) = (read.len(), 0);
        let old = read.into_iter().take_while(|(_, at, ids)| {
            let has_room = calls < most;
            calls += ids.len() / 16;
            has_room && *at < before.0
        });
        let commits: Vec<(i64, Vec<Uuid>)> = old.map(|(pos, _, ids)| (pos, codec::split_ids(&ids))).collect();
        let may_have_more = !commits.is_empty() && (calls >= most || commits.len() == there);
        Self { commits, may_have_more }
    }

    fn ids(&self) -> Vec<Uuid> {
        let ids: HashSet<Uuid> = self.commits.iter().flat_map(|(_, ids)| ids).copied().collect();
        ids.into_iter().collect()
    }

    /// Ends the range before the first commit that contains one of these calls.
    fn end_before(&mut self, awaited: &HashSet<Uuid>) {
        let place = self.commits.iter().position(|(_, ids)| ids.iter().any(|id| awaited.contains(id)));
        if let Some(place) = place {
            self.commits.truncate(place);
            self.may_have_more = false;
        }
    }

    /// Ends the range before the calls exceed `most` bytes, but after the first commit. `sizes` has the sizes of the
    /// calls.
    fn end_within(&mut self, sizes: &HashMap<Uuid, i64>, most: i64) {
        let mut bytes = 0;
        let place = self.commits.iter().position(|(_, ids)| {
            bytes += ids.iter().filter_map(|id| sizes.get(id)).sum::<i64>();
            bytes > most
        });
        if let Some(place) = place.map(|place| place.max(1)).filter(|place| *place < self.commits.len()) {
            self.commits.truncate(place);
            self.may_have_more = true;
        }
    }

    /// Returns the position of the last commit in the range.
    fn until(&self) -> Option<i64> {
        self.commits.last().map(|(pos, _)| *pos)
    }
}

/// Builds the query `HEAD IN (…)`.
fn with_ids<D: sqlx::Database>(head: &str, ids: &[Uuid]) -> QueryBuilder<D>
where
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new(head);
    query.push(" IN (");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(*id);
    }
    query.push(")");
    query
}

/// Builds the statement that deletes up to [`MAX_EVENTS`] reported events of these calls.
fn delete_events<D: sqlx::Database>(ids: &[Uuid]) -> QueryBuilder<D>
where
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let head = "DELETE FROM call_events WHERE (call_id, seq) IN (SELECT call_id, seq FROM call_events WHERE call_id";
    let mut query = with_ids(head, ids);
    query.push(" LIMIT ").push_bind(MAX_EVENTS).push(")");
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(pos: i64, at: i64, calls: &[u128]) -> (i64, i64, Vec<u8>) {
        (pos, at, codec::concat_ids(&calls.iter().map(|id| Uuid::from_u128(*id)).collect::<Vec<_>>()))
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
