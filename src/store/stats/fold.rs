//! Folds the notes of commits into statistics. A commit writes one note for all calls that end in it, so the note
//! exists exactly if they have ended. Folding adds the notes to readable rows, one range of positions at a time and
//! each range once: a node holds the row that stores the progress.

use std::sync::LazyLock;

use crate::store::journal::Tally;
use crate::store::{Db, StoreError, Stores};

/// Maximum number of commits folded in one transaction: on SQLite the journal waits meanwhile.
const MAX_COMMITS: i64 = 256;

/// Selects the positions up to which commits are folded and up to which they exist.
const PROGRESS: &str = "SELECT pos, COALESCE((SELECT MAX(last_pos) FROM commits), 0) FROM stats_folded WHERE one = 1";
/// Locks the row, so that the following query starts after everything that other nodes folded.
const HOLD: &str = "UPDATE stats_folded SET pos = pos WHERE one = 1 RETURNING pos";
const NOTES: &str = "SELECT last_pos, stats FROM commits WHERE last_pos > $1 ORDER BY last_pos LIMIT $2";
const MOVE: &str = "UPDATE stats_folded SET pos = $1 WHERE one = 1";

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
        let (mut folded, there): (i64, i64) = self.db.read(PROGRESS).one().await?;
        while folded < there {
            let Some(until) = self.fold_range().await? else { break };
            folded = until;
        }
        Ok(())
    }

    /// Folds the next commits and returns the last position, or `None` if other nodes have folded all commits.
    async fn fold_range(&self) -> Result<Option<i64>, StoreError> {
        let add = match &self.db {
            Db::Sqlite(_) => ADD_SQLITE.as_str(),
            Db::Postgres(_) => ADD_POSTGRES.as_str(),
        };
        let folded = self.db.transaction(async |transaction| {
            let (from,): (i64,) = transaction.query(HOLD).one().await?;
            let notes: Vec<(i64, Option<String>)> = transaction.query(NOTES).bind(from).bind(MAX_COMMITS).all().await?;
            let until = notes.last().map(|(pos, _)| *pos);
            for (key, sum) in tally(&notes).rows() {
                let query = transaction.query(add).bind(&*key.tenant).bind(&*key.tool).bind(key.minute);
                let query = query.bind(i16::from(key.executed)).bind(&*key.code).bind(key.bucket);
                let query = query.bind(sum.calls).bind(sum.total_ms).bind(sum.min_ms).bind(sum.max_ms);
                query.bind(sum.retries).bind(sum.last_at).execute().await?;
            }
            if let Some(until) = until {
                transaction.query(MOVE).bind(until).execute().await?;
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
