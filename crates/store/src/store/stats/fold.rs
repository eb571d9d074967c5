//! Folds the notes of commits into statistics. A commit writes one note for all calls that end in it, so the note
//! exists exactly if they have ended. Folding adds the notes to readable rows, one range of positions at a time and
//! each range once: a node holds the row that stores the progress.

use std::sync::LazyLock;

use crate::store::journal::{Key, Sum, Tally};
use crate::store::query::Query;
use crate::store::{Db, StoreError, Stores, budgets, codec};
use toolpost_core::domain::Shard;

/// Maximum number of commits folded in one transaction: on SQLite the journal waits meanwhile.
const MAX_COMMITS: i64 = 256;

/// Selects the shards with commits that are not folded, and the positions up to which they exist.
const PROGRESS: &str = "SELECT c.pos FROM event_clock AS c JOIN stats_folded AS f ON f.shard = c.shard WHERE f.pos < c.pos ORDER BY c.shard";
/// Locks the row, so that the following query starts after everything that other nodes folded.
const HOLD: &str = "UPDATE stats_folded SET pos = pos WHERE shard = $1 RETURNING pos";
const NOTES: &str = "SELECT last_pos, stats FROM commits WHERE shard = $1 AND last_pos > $2 ORDER BY last_pos LIMIT $3";
const MOVE: &str = "UPDATE stats_folded SET pos = $2 WHERE shard = $1";

/// Maximum number of rows of one statement. With a statement for each row, a transaction far from the database would not end in
/// time, and nothing would ever be folded.
const MAX_ROWS: usize = 250;

/// Adds to rows of statistics.
const ADD: &str = "INSERT INTO tool_stats AS s \
    (tenant, tool, minute, executed, code, bucket, calls, total_ms, min_ms, max_ms, retries, last_at) VALUES ";
/// `{MIN}` and `{MAX}` are the scalar functions, whose names differ between the databases.
const TO_EXISTING: &str = " ON CONFLICT (tenant, tool, minute, executed, code, bucket) DO UPDATE SET \
    calls = s.calls + excluded.calls, total_ms = s.total_ms + excluded.total_ms, \
    min_ms = {MIN}(s.min_ms, excluded.min_ms), max_ms = {MAX}(s.max_ms, excluded.max_ms), \
    retries = s.retries + excluded.retries, last_at = {MAX}(s.last_at, excluded.last_at)";
static TO_EXISTING_SQLITE: LazyLock<String> =
    LazyLock::new(|| TO_EXISTING.replace("{MIN}", "MIN").replace("{MAX}", "MAX"));
static TO_EXISTING_POSTGRES: LazyLock<String> =
    LazyLock::new(|| TO_EXISTING.replace("{MIN}", "LEAST").replace("{MAX}", "GREATEST"));

impl Stores {
    /// Folds all commits that exist at the time of the call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn fold_stats(&self) -> Result<(), StoreError> {
        let behind: Vec<i64> = self.db.read(PROGRESS).column().await?;
        for there in behind {
            while let Some(folded) = self.fold_range(Shard::of_position(there)).await?
                && folded < there
            {}
        }
        Ok(())
    }

    /// Folds the next commits of a shard and returns the last position, or `None` if other nodes have folded all
    /// commits.
    async fn fold_range(&self, shard: Shard) -> Result<Option<i64>, StoreError> {
        let number = codec::shard_column(shard);
        let to_existing = match &self.db {
            Db::Sqlite(_) => TO_EXISTING_SQLITE.as_str(),
            Db::Postgres(_) => TO_EXISTING_POSTGRES.as_str(),
        };
        let folded = self.db.transaction(async |transaction| {
            let (from,): (i64,) = transaction.query(HOLD).bind(number).one().await?;
            let query = transaction.query(NOTES).bind(number).bind(from).bind(MAX_COMMITS);
            let notes: Vec<(i64, Option<String>)> = query.all().await?;
            let until = notes.last().map(|(pos, _)| *pos);
            let tally = tally(&notes);
            let rows: Vec<(&Key, &Sum)> = tally.rows().collect();
            for rows in rows.chunks(MAX_ROWS) {
                let add = transaction.query(ADD).uncached();
                push_rows(add, rows).push(to_existing).execute().await?;
            }
            // In the same order on each node, so that nodes never wait for each other in a circle.
            for (key, amount) in tally.used() {
                budgets::add_use(transaction, key, amount).await?;
            }
            for (key, amount) in tally.reductions() {
                budgets::reduce_allotment(transaction, key, amount).await?;
            }
            if let Some(until) = until {
                transaction.query(MOVE).bind(number).bind(until).execute().await?;
            }
            Ok(until)
        });
        folded.await
    }
}

/// Adds the values of rows to a statement.
fn push_rows<'t>(mut query: Query<'t>, rows: &[(&Key, &Sum)]) -> Query<'t> {
    let mut separator = "(";
    for (key, sum) in rows {
        query = query.push(separator).push_bind(&*key.tenant).push(", ").push_bind(&*key.tool);
        query = query.push(", ").push_bind(key.minute).push(", ").push_bind(i16::from(key.executed));
        query = query.push(", ").push_bind(&*key.code).push(", ").push_bind(key.bucket);
        for number in [sum.calls, sum.total_ms, sum.min_ms, sum.max_ms, sum.retries] {
            query = query.push(", ").push_bind(number);
        }
        query = query.push(", ").push_bind(sum.last_at).push(")");
        separator = ", (";
    }
    query
}

/// Adds up the notes. A corrupt note is logged and skipped; otherwise it would block all later ones.
fn tally(notes: &[(i64, Option<String>)]) -> Tally {
    let mut tally = Tally::default();
    for (pos, note) in notes {
        if let Err(error) = note.as_deref().map_or(Ok(()), |note| tally.add_note(note)) {
            tracing::error!(pos, %error, "cannot decode the stats of a commit; its calls are missing from the statistics");
        }
    }
    tally
}
