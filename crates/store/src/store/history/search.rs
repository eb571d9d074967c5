//! The index of words: filled after the commits of ended calls, so that it does not slow them down.
//!
//! A row has the number of a word and the ids of calls with the word, which ended together and were made within the same
//! `SPAN_MS`. The rows of a period of about 37 hours follow each other, so that retention deletes whole periods. Only
//! stored rows are read, so the index never has a word that a hook has redacted.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{Entries, words};
use crate::store::codec::{self, CallRow};
use crate::store::query::Query;
use crate::store::{Db, Store, StoreError, Stores};
use toolpost_core::domain::{Call, Shard, Time};

/// Bits of the milliseconds within a period, and within the span of the calls of one row.
const PERIOD_BITS: u32 = 27;
const SPAN_BITS: u32 = 15;
/// Maximum number of commits that are indexed in one step.
const MAX_COMMITS: i64 = 64;
/// Number of calls after which a step ends: on SQLite the journal waits while their words are inserted.
const STEP_CALLS: usize = 512;
/// Maximum number of steps before the lease is extended.
const MAX_STEPS: usize = 4;
/// The rest after a step, as a multiple of its duration: calls have priority, so the index may fall behind them.
const REST: u32 = 19;
/// Maximum rest after a step, so that the lease lasts.
const MAX_REST: Duration = Duration::from_millis(800);
/// Number of calls whose sizes are read together, and maximum bytes of calls in memory.
const MAX_CALLS: usize = 500;
const MAX_BYTES: i64 = 8 * 1024 * 1024;
/// Maximum bytes of a call whose words are indexed. The values of larger arguments would need much memory at once.
const MAX_CALL_BYTES: i64 = 256 * 1024;
/// Maximum number of calls of a row.
const ROW_CALLS: usize = 256;
/// Number of rows that are inserted by one statement, and that are read by one.
const INSERT_ROWS: usize = 256;
const READ_ROWS: usize = 64;
/// Number of rows that are deleted by one statement.
const DELETE_ROWS: i64 = 5000;
/// Time for which a node keeps the right to fill the index, in microseconds.
const LEASE: i64 = 5_000_000;

/// Selects the positions up to which calls are indexed, of each shard with further ones.
const PROGRESS: &str = "SELECT w.pos FROM event_clock AS c JOIN words_indexed AS w ON w.shard = c.shard \
    WHERE w.pos < c.pos ORDER BY c.shard";
/// Acquires or extends the right to index a shard.
const ACQUIRE: &str = "UPDATE words_indexed SET node = $1, leased_until = $2 \
    WHERE shard = $4 AND (node = $1 OR leased_until < $3) RETURNING pos";
const COMMITS: &str =
    "SELECT last_pos, calls FROM commits WHERE shard = $1 AND last_pos > $2 ORDER BY last_pos LIMIT $3";
/// Records the progress, unless another node has recorded some.
const MOVE: &str = "UPDATE words_indexed SET pos = $2 WHERE shard = $3 AND pos = $1";
const SIZES: &str = "SELECT id, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) FROM tool_calls \
    WHERE status > 1 AND settled_pos > ";

/// Returns the milliseconds in which an id was generated.
fn millis(id: Uuid) -> u64 {
    u64::try_from(id.as_u128() >> 80).unwrap_or(u64::MAX)
}

fn period(id: Uuid) -> i32 {
    i32::try_from(millis(id) >> PERIOD_BITS).unwrap_or(i32::MAX)
}

/// Returns the smallest id after the span of an id.
fn end_of_span(id: Uuid) -> Uuid {
    Uuid::from_u128(u128::from((millis(id) >> SPAN_BITS) + 1) << (80 + SPAN_BITS))
}

impl Stores {
    /// Indexes the words of calls that have ended, unless another node does. Returns `true` if more may be left.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn index_words(&self, node: &str, now: Time) -> Result<bool, StoreError> {
        let mut is_unfinished = false;
        for indexed in self.db.read(PROGRESS).column().await? {
            is_unfinished |= self.index_shard(indexed, node, now).await?;
        }
        Ok(is_unfinished)
    }

    /// Indexes the words of calls of the shard of this position. Returns `true` if more may be left.
    async fn index_shard(&self, indexed: i64, node: &str, now: Time) -> Result<bool, StoreError> {
        let shard = Shard::of_position(indexed);
        let mut pos = indexed;
        // SQLite has one service, which needs no lease.
        if let Db::Postgres(_) = &self.db {
            let acquire = self.db.write(ACQUIRE).bind(node).bind(now.0.saturating_add(LEASE)).bind(now.0);
            let acquire = acquire.bind(codec::shard_column(shard));
            let Some((current,)) = acquire.optional::<(i64,)>().await? else { return Ok(false) };
            pos = current;
        }
        for _ in 0..MAX_STEPS {
            let began = Instant::now();
            let query = self.db.read(COMMITS).bind(codec::shard_column(shard)).bind(pos).bind(MAX_COMMITS);
            let mut commits: Vec<(i64, Vec<u8>)> = query.all().await?;
            let mut calls = 0;
            let step = commits.iter().take_while(|(_, ids)| {
                let is_within_step = calls < STEP_CALLS;
                calls += ids.len() / 16;
                is_within_step
            });
            commits.truncate(step.count());
            let Some((until, _)) = commits.last() else { return Ok(false) };
            let rows = self.words_of(&commits, pos, *until).await?;
            if !self.insert_words(&rows, pos, *until).await? {
                return Ok(false);
            }
            pos = *until;
            tokio::time::sleep((began.elapsed() * REST).min(MAX_REST)).await;
        }
        Ok(true)
    }

    /// Returns the rows for the calls that ended in these commits.
    async fn words_of(&self, commits: &[(i64, Vec<u8>)], after: i64, until: i64) -> Result<Vec<WordRow>, StoreError> {
        let mut ids: Vec<Uuid> = commits.iter().flat_map(|(_, ids)| codec::split_ids(ids)).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found = Postings::default();
        for chunk in ids.chunks(MAX_CALLS) {
            let sizes = self.db.read(SIZES).push_bind(after).push(" AND settled_pos <= ").push_bind(until);
            let mut left: Vec<(Uuid, i64)> =
                sizes.push(" AND ").push_calls(["shard", "id"], chunk).uncached().all().await?;
            left.retain(|(_, size)| *size <= MAX_CALL_BYTES);
            while !left.is_empty() {
                let mut bytes = 0;
                let fitting = left.iter().take_while(|(_, size)| {
                    bytes += size;
                    bytes <= MAX_BYTES
                });
                let rest = left.split_off(fitting.count().max(1));
                let ids: Vec<Uuid> = left.iter().map(|(id, _)| *id).collect();
                left = rest;
                let rows: Vec<CallRow> = self.db.calls(&ids).uncached().all().await?;
                for row in rows {
                    let id = row.id;
                    match row.decode() {
                        Ok(call) => found.add(&call),
                        Err(error) => tracing::debug!(%id, %error, "the words of a call cannot be indexed"),
                    }
                }
            }
        }
        Ok(found.rows())
    }

    /// Inserts the rows and records the progress. Returns `false` if another node did.
    async fn insert_words(&self, rows: &[WordRow], from: i64, until: i64) -> Result<bool, StoreError> {
        let inserted = self.db.transaction(async |transaction| {
            let shard = codec::shard_column(Shard::of_position(until));
            if transaction.query(MOVE).bind(from).bind(until).bind(shard).execute().await? == 0 {
                return Ok(None);
            }
            for rows in rows.chunks(INSERT_ROWS) {
                let mut query = transaction.query("INSERT INTO call_words (period, word, newest, calls) VALUES ");
                for (index, row) in rows.iter().enumerate() {
                    query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(row.period).push(", ");
                    query = query.push_bind(row.word).push(", ").push_bind(row.newest).push(", ");
                    query = query.push_bind(row.others.as_deref()).push(")");
                }
                let query = if rows.len() == INSERT_ROWS { query } else { query.uncached() };
                query.push(" ON CONFLICT DO NOTHING").execute().await?;
            }
            Ok(Some(()))
        });
        Ok(inserted.await?.is_some())
    }

    /// Deletes the words of periods that ended before `before`, in part. Returns `true` if more may be left.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn prune_words(&self, before: Time) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM call_words WHERE (period, word, newest) IN \
            (SELECT period, word, newest FROM call_words WHERE period < $1 LIMIT $2)";
        let first = period(codec::first_id_at(before));
        let deleted = self.db.write(SQL).bind(first).bind(DELETE_ROWS).execute().await?;
        Ok(deleted >= DELETE_ROWS.unsigned_abs())
    }
}

/// A row of the index.
#[derive(Debug, PartialEq, Eq)]
struct WordRow {
    period: i32,
    word: i64,
    newest: Uuid,
    /// The other calls; `None` if there are none.
    others: Option<Vec<u8>>,
}

/// The calls of each word and span.
#[derive(Debug, Default)]
struct Postings(BTreeMap<(u64, i64), Vec<Uuid>>);

impl Postings {
    fn add(&mut self, call: &Call) {
        for word in words::of_call(call) {
            let key = (millis(call.id) >> SPAN_BITS, words::hash(call.tenant.as_str(), &word));
            self.0.entry(key).or_default().push(call.id);
        }
    }

    fn rows(self) -> Vec<WordRow> {
        let mut rows = Vec::with_capacity(self.0.len());
        for ((_, word), mut ids) in self.0 {
            ids.sort_unstable_by(|one, other| other.cmp(one));
            ids.dedup();
            rows.extend(ids.chunks(ROW_CALLS).map(|ids| WordRow {
                period: period(ids[0]),
                word,
                newest: ids[0],
                others: Some(codec::concat_ids(&ids[1..])).filter(|others| !others.is_empty()),
            }));
        }
        rows
    }
}

/// Reads up to about `window` calls with a word, and adds the unfinished calls, whose words are not indexed yet.
pub(super) async fn read(
    store: &Store,
    word: i64,
    range: (Uuid, Option<Uuid>),
    window: usize,
    unfinished: Entries,
) -> Result<Entries, StoreError> {
    let mut found = indexed(store, word, range, window).await?;
    found.frontier = found.frontier.max(unfinished.frontier);
    found.ids.extend(unfinished.ids);
    let frontier = found.frontier.unwrap_or_else(Uuid::nil);
    found.ids.retain(|id| *id >= frontier);
    found.ids.sort_unstable_by(|one, other| other.cmp(one));
    found.ids.dedup();
    Ok(found)
}

/// Reads up to about `window` calls from the rows of a word.
async fn indexed(
    store: &Store,
    word: i64,
    (since, before): (Uuid, Option<Uuid>),
    window: usize,
) -> Result<Entries, StoreError> {
    // Both in one query would read the whole index on SQLite.
    let oldest = "SELECT COALESCE((SELECT MIN(period) FROM call_words), 0), \
        COALESCE((SELECT MAX(period) FROM call_words), -1)";
    let (first, last): (i32, i32) = store.db.read(oldest).one().await?;
    let first = first.max(period(since));
    let mut last = before.map_or(last, |before| last.min(period(before)));
    // A row with a newer call may have older ones of the same span, too.
    let mut bound = before.map_or(Uuid::max(), end_of_span);
    let is_within = |id: &Uuid| *id >= since && before.is_none_or(|last| *id < last);
    let (mut ids, mut periods) = (Vec::new(), 1);
    while last >= first {
        let from = first.max(last.saturating_sub(periods - 1));
        let rows: Vec<(Uuid, Option<Vec<u8>>)> = rows(store, word, bound, from..=last).uncached().all().await?;
        let reached = rows.last().map(|(newest, _)| *newest).filter(|_| rows.len() == READ_ROWS);
        for (newest, others) in rows {
            let all = codec::split_ids(&others.unwrap_or_default());
            ids.extend(all.into_iter().chain([newest]).filter(is_within));
        }
        if let Some(reached) = reached {
            bound = reached;
            if ids.iter().filter(|id| **id >= reached).count() >= window {
                return Ok(Entries { ids, frontier: Some(reached) });
            }
        } else {
            // Older periods are read several at a time: a rare word is in few of them.
            last = from - 1;
            periods = (periods * 4).min(256);
        }
    }
    Ok(Entries { ids, frontier: None })
}

/// Creates the query for the rows of a word in these periods, newest first.
pub(super) fn rows(store: &Store, word: i64, before: Uuid, periods: RangeInclusive<i32>) -> Query<'_> {
    let query = store.db.read("SELECT newest, calls FROM call_words WHERE word = ").push_bind(word);
    let query = query.push(" AND newest < ").push_bind(before).push(" AND period IN ").push_list(periods);
    query.push(" ORDER BY newest DESC LIMIT ").push_bind(READ_ROWS as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_word_are_grouped_by_the_time_of_their_ids() {
        let id = |millis: u128, number: u128| Uuid::from_u128(millis << 80 | number);
        let span = 1_u128 << SPAN_BITS;
        let mut found = Postings::default();
        for (word, id) in [(7, id(1, 1)), (7, id(1, 2)), (7, id(span, 1)), (8, id(1, 1)), (7, id(1, 2))] {
            found.0.entry((millis(id) >> SPAN_BITS, word)).or_default().push(id);
        }
        let row = |word, newest, others: &[Uuid]| WordRow {
            period: 0,
            word,
            newest,
            others: Some(codec::concat_ids(others)).filter(|others| !others.is_empty()),
        };
        let rows = [row(7, id(1, 2), &[id(1, 1)]), row(8, id(1, 1), &[]), row(7, id(span, 1), &[])];
        assert_eq!(found.rows(), rows);
        assert_eq!(end_of_span(id(1, 2)), id(span, 0));
        assert_eq!(period(id(1 << PERIOD_BITS, 0)), 1);
    }
}
