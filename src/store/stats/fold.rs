//! Folds the notes of commits into statistics. A commit writes one note for all calls that end in it, so the note
//! exists exactly if they have ended. Folding adds the notes to readable rows, one range of positions at a time and
//! each range once: a node holds the row that stores the progress.

use std::sync::LazyLock;

use crate::domain::Shard;
use crate::store::journal::Tally;
use crate::store::{Db, StoreError, Stores, budgets, codec};

/// Maximum number of commits folded in one transaction: on SQLite the journal waits meanwhile.
const MAX_COMMITS: i64 = 256;

/// Selects the shards with commits that are not folded, and the positions up to which they exist.
const PROGRESS: &str = "SELECT c.pos FROM event_clock AS c JOIN stats_folded AS f ON f.shard = c.shard WHERE f.pos < c.pos ORDER BY c.shard";
/// Locks the row, so that the following query starts after everything that other nodes folded.
const HOLD: &str = "UPDATE stats_folded SET pos = pos WHERE shard = $1 RETURNING pos";
const NOTES: &str = "SELECT last_pos, stats FROM commits WHERE shard = $1 AND last_pos > $2 ORDER BY last_pos LIMIT $3";
const MOVE: &str = "UPDATE stats_folded SET pos = $2 WHERE shard = $1";

/// Adds to a row of statistics. `{MIN}` and `{MAX}` are the scalar functions, whose names differ between the databases.
const ADD: &str = "INSERT INTO tool_stats AS s \
    (tenant, tool, minute, executed, code, bucket, calls, total_ms, min_ms, max_ms, retries, last_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
    ON CONFLICT (tenant, tool, minute, executed, code, bucket) DO UPDATE SET \
    calls = s.calls + excluded.calls, total_ms = s.total_ms + excluded.total_ms, \
    min_ms = {MIN}(s.min_ms, excluded.min_ms), max_ms = {MAX}(s.max_ms, excluded.max_ms), \
    retries = s.retries + excluded.retries, last_at = {MAX}(s.last_at, excluded.last_at)";
static ADD_SQLITE: LazyLock<String> = LazyLock::new(|| ADD.replace("{MIN}", "MIN").replace("{MAX}", "MAX"));
static ADD_POSTGRES: LazyLock<String> = LazyLock::new(|| ADD.replace("{MIN}", "LEAST").replace("{MAX}", "GREATEST"));

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
        let add = match &self.db {
            Db::Sqlite(_) => ADD_SQLITE.as_str(),
            Db::Postgres(_) => ADD_POSTGRES.as_str(),
        };
        let folded = self.db.transaction(async |transaction| {
            let (from,): (i64,) = transaction.query(HOLD).bind(number).one().await?;
            let query = transaction.query(NOTES).bind(number).bind(from).bind(MAX_COMMITS);
            let notes: Vec<(i64, Option<String>)> = query.all().await?;
            let until = notes.last().map(|(pos, _)| *pos);
            let tally = tally(&notes);
            for (key, sum) in tally.rows() {
                let query = transaction.query(add).bind(&*key.tenant).bind(&*key.tool).bind(key.minute);
                let query = query.bind(i16::from(key.executed)).bind(&*key.code).bind(key.bucket);
                let query = query.bind(sum.calls).bind(sum.total_ms).bind(sum.min_ms).bind(sum.max_ms);
                query.bind(sum.retries).bind(sum.last_at).execute().await?;
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
