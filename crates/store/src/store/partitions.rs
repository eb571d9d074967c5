//! The partitions of the history by time, on Postgres. Retention drops a whole partition instead of deleting its rows.
//!
//! Ids begin with their time in milliseconds, so a range of ids is a range of time. The ranges of the partitions follow
//! each other, and the first one begins at 0. Every node creates the next partitions ahead of time. A commit that finds
//! none for its calls creates it, so that a missing partition never loses a call.

use std::collections::HashMap;

use uuid::Uuid;

use super::query::Transaction;
use super::{Db, StoreError, Stores, codec};
use toolpost_core::domain::Time;

/// The partitioned tables. All have the same ranges.
const TABLES: [&str; 6] = ["tool_calls", "call_events", "approvals", "callbacks", "commits", "call_words"];
/// The width of a partition that was missing, in milliseconds: one day.
const MISSING_WIDTH: u64 = 24 * 60 * 60 * 1000;
/// The number of partitions for the time that is to be kept. More would slow down every query.
const KEPT_PARTITIONS: u64 = 8;
/// The greatest width, also if everything is kept: 30 days.
const MAX_WIDTH: u64 = 30 * 24 * 60 * 60 * 1000;
/// The end of all times in ids.
const LAST: u64 = 1 << 48;
/// The time after its creation from which on the end of a call counts as late: one hour. Late ends are stored, because
/// the range of a partition says nothing about them.
const LATE_MS: u64 = 60 * 60 * 1000;
/// SQLSTATE of a statement that did not get its lock in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";

const LOCK: &str = "LOCK TABLE call_partitions IN SHARE ROW EXCLUSIVE MODE";
const RANGES: &str = "SELECT from_ms, until_ms FROM call_partitions ORDER BY from_ms";
const INSERT: &str = "INSERT INTO call_partitions (from_ms, until_ms) VALUES ($1, $2)";
const HOLD: &str = "SELECT 1 FROM call_partitions WHERE from_ms = $1 FOR UPDATE SKIP LOCKED";
const ADVANCE: &str = "UPDATE retention SET calls_pos = GREATEST(calls_pos, $2) WHERE shard = $1";
/// Whether any row of the ids from `$1` to `$2` must stay: an unfinished call, a call that ended at `$3` or later, or a call
/// whose callback is pending.
const MUST_STAY: &str = "SELECT EXISTS (SELECT 1 FROM tool_calls WHERE id >= $1 AND id < $2 AND status < 2) \
    OR EXISTS (SELECT 1 FROM tool_calls WHERE id >= $1 AND id < $2 AND ended_late >= $3) \
    OR EXISTS (SELECT 1 FROM callbacks WHERE call_id >= $1 AND call_id < $2 AND state = 0)";

/// Milliseconds from the first to before the second.
type Range = (u64, u64);

/// Returns the width of partitions, in milliseconds, for a time to keep calls; 0 keeps them forever.
#[must_use]
pub fn width_for(kept_ms: u64) -> u64 {
    if kept_ms == 0 { MAX_WIDTH } else { (kept_ms / KEPT_PARTITIONS).clamp(1, MAX_WIDTH) }
}

/// Returns the time by which the end of a call is certainly before the end of its partition, or stored as late, given
/// partitions of this width.
#[must_use]
pub fn overdue_ms(width: u64) -> u64 {
    width + LATE_MS
}

/// Returns the end of a call that ended long after its creation.
pub(super) fn late_end(id: Uuid, ended_at: Option<Time>) -> Option<i64> {
    let latest = millis(id).saturating_add(LATE_MS).saturating_mul(1000);
    ended_at.map(|at| at.0).filter(|at| u64::try_from(*at).is_ok_and(|at| at > latest))
}

/// Returns the range of the partition to create for a time, or `None` if there is one. It begins where the one before it
/// ends, and it ends at a multiple of `width`.
fn missing(there: &[Range], at: u64, width: u64) -> Option<Range> {
    let next = there.partition_point(|(from, _)| *from <= at);
    let from = next.checked_sub(1).map_or(0, |before| there[before].1);
    let aligned = (at / width + 1).saturating_mul(width).min(LAST);
    let until = there.get(next).map_or(aligned, |(from, _)| aligned.min(*from));
    (from <= at).then_some((from, until))
}

impl Stores {
    /// Creates the partition for this time and the one after it, unless they exist. Does nothing on SQLite.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn create_partitions(&self, now: Time, width: u64) -> Result<(), StoreError> {
        let now = u64::try_from(now.0 / 1000).unwrap_or(0);
        if matches!(self.db, Db::Sqlite(_)) {
            return Ok(());
        }
        let there = ranges(self.db.write(RANGES).all().await?);
        let times = [now, now.saturating_add(width).min(LAST - 1)];
        if times.iter().all(|at| missing(&there, *at, width).is_none()) {
            return Ok(());
        }
        create(&self.db, &times, width).await
    }

    /// Drops the oldest partitions, as long as all their calls ended before `before`, and returns how many. Stops at one
    /// with a call that must stay, and while other queries use them. Does nothing on SQLite.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn drop_partitions(&self, before: Time) -> Result<usize, StoreError> {
        let mut dropped = 0;
        if matches!(self.db, Db::Sqlite(_)) {
            return Ok(dropped);
        }
        self.fold_stats().await?;
        for range in ranges(self.db.write(RANGES).all().await?) {
            let end = range.1.saturating_add(LATE_MS).saturating_mul(1000);
            if i64::try_from(end).is_ok_and(|end| end <= before.0) && self.drop_partition(range, before).await? {
                dropped += 1;
            } else {
                break;
            }
        }
        Ok(dropped)
    }

    async fn drop_partition(&self, (from, until): Range, before: Time) -> Result<bool, StoreError> {
        let dropped = self.db.transaction(async |transaction| {
            // Commits wait behind this transaction while it waits for a query.
            transaction.query("SET LOCAL lock_timeout = '100ms'").execute().await?;
            let number = from.cast_signed();
            if transaction.query(HOLD).bind(number).optional::<(i32,)>().await?.is_none() {
                return Ok(None);
            }
            // A commit that was delayed for days must not write to the partition after the checks.
            let lock = format!("LOCK TABLE tool_calls_{from}, callbacks_{from}, commits_{from} IN SHARE MODE");
            transaction.query(lock).uncached().execute().await?;
            let newest = format!("SELECT shard, MAX(last_pos) FROM commits_{from} GROUP BY shard");
            let newest: Vec<(i16, i64)> = transaction.query(newest).uncached().all().await?;
            let folded: Vec<(i16, i64)> = transaction.query("SELECT shard, pos FROM stats_folded").all().await?;
            let folded: HashMap<i16, i64> = folded.into_iter().collect();
            let is_folded = newest.iter().all(|(shard, pos)| folded.get(shard).is_some_and(|folded| folded >= pos));
            let query = transaction.query(MUST_STAY).bind(first_id(from)).bind(first_id(until)).bind(before);
            let (must_stay,): (bool,) = query.one().await?;
            if must_stay || !is_folded {
                return Ok(None);
            }
            for (shard, pos) in newest {
                transaction.query(ADVANCE).bind(shard).bind(pos).execute().await?;
            }
            let names = TABLES.map(|table| format!("{table}_{from}")).join(", ");
            transaction.query(format!("DROP TABLE {names}")).uncached().execute().await?;
            transaction.query("DELETE FROM call_partitions WHERE from_ms = $1").bind(number).execute().await?;
            Ok(Some(()))
        });
        match dropped.await {
            Ok(dropped) => Ok(dropped.is_some()),
            Err(error) if is_lock_timeout(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Creates the missing partitions for these ids.
pub(super) async fn cover(db: &Db, ids: impl Iterator<Item = Uuid>) -> Result<(), StoreError> {
    create(db, &ids.map(millis).collect::<Vec<_>>(), MISSING_WIDTH).await
}

async fn create(db: &Db, times: &[u64], width: u64) -> Result<(), StoreError> {
    let created = db.transaction(async |transaction| {
        transaction.query(LOCK).execute().await?;
        let mut there = ranges(transaction.query(RANGES).all().await?);
        for at in times {
            if let Some(range) = missing(&there, *at, width) {
                create_one(transaction, range).await?;
                there.push(range);
                there.sort_unstable();
            }
        }
        Ok(Some(()))
    });
    created.await.map(drop)
}

/// Creates the tables and attaches them, which locks out neither commits nor queries.
async fn create_one(transaction: &mut Transaction<'_>, (from, until): Range) -> Result<(), StoreError> {
    let until_id = if until < LAST { format!("'{}'", first_id(until)) } else { "MAXVALUE".to_owned() };
    for table in TABLES {
        let name = format!("{table}_{from}");
        let create = format!("CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES)");
        transaction.query(create).uncached().execute().await?;
        let bounds = format!("FROM ('{}') TO ({until_id})", first_id(from));
        let attach = format!("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}");
        transaction.query(attach).uncached().execute().await?;
    }
    transaction.query(INSERT).bind(from.cast_signed()).bind(until.cast_signed()).execute().await.map(drop)
}

fn ranges(rows: Vec<(i64, i64)>) -> Vec<Range> {
    rows.into_iter().map(|(from, until)| (from.unsigned_abs(), until.unsigned_abs())).collect()
}

/// Returns the milliseconds with which an id begins.
fn millis(id: Uuid) -> u64 {
    u64::try_from(id.as_u128() >> 80).unwrap_or(LAST - 1)
}

fn first_id(millis: u64) -> Uuid {
    codec::first_id_at(Time(i64::try_from(millis.saturating_mul(1000)).unwrap_or(i64::MAX)))
}

fn is_lock_timeout(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else { return false };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == LOCK_NOT_AVAILABLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn partition_begins_at_the_end_of_the_previous_one() {
        assert_eq!(missing(&[], 25, 10), Some((0, 30)));
        assert_eq!(missing(&[(0, 30)], 29, 10), None);
        assert_eq!(missing(&[(0, 30)], 30, 10), Some((30, 40)));
        assert_eq!(missing(&[(0, 30)], 99, 10), Some((30, 100)));
        assert_eq!(missing(&[(20, 30)], 5, 10), Some((0, 10)), "the first one was dropped");
        assert_eq!(missing(&[(5, 30)], 3, 10), Some((0, 5)));
        assert_eq!(missing(&[(0, 30)], LAST - 1, 10), Some((30, LAST)));
    }

    #[test]
    fn end_is_late_an_hour_after_the_creation() {
        let id = Uuid::from_u128(5000 << 80);
        let after = |micros: i64| late_end(id, Some(Time(5_000_000 + micros)));
        assert_eq!((after(3_600_000_000), after(3_600_000_001)), (None, Some(3_605_000_001)));
        assert_eq!(late_end(id, None), None);
    }

    #[test]
    fn few_partitions_cover_the_time_to_keep() {
        assert_eq!(width_for(8 * 1000), 1000);
        assert_eq!((width_for(0), width_for(u64::MAX)), (MAX_WIDTH, MAX_WIDTH));
        assert_eq!(width_for(1), 1);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_cover_every_time(times in proptest::collection::vec((0_u64..1000, 1_u64..100), 1..20)) {
            let mut there: Vec<Range> = Vec::new();
            for (at, width) in times {
                if let Some(range) = missing(&there, at, width) {
                    prop_assert!(range.0 <= at && at < range.1);
                    there.push(range);
                    there.sort_unstable();
                }
                prop_assert!(there.iter().any(|(from, until)| (*from..*until).contains(&at)));
                prop_assert!(there.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            }
        }
    }
}
