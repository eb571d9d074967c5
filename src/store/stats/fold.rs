//! Makes sums of what commits have noted. A commit writes one row for all that it counts, and that is exact: the note is
//! there if and only if the calls' ends are. Here the notes become rows that can be read and added up, a stretch of
//! positions at a time, each stretch once: whoever folds holds the row that says how far the sums go.

use std::sync::LazyLock;

use sqlx::Connection;

use crate::store::db::in_transaction;
use crate::store::journal::Tally;
use crate::store::{Db, StoreError, Stores, db};

/// Most commits that are folded in one transaction: on SQLite the journal waits meanwhile.
const STRETCH: i64 = 256;

/// How far the sums go, and how far the commits.
const HOW_FAR: &str = "SELECT pos, COALESCE((SELECT MAX(last_pos) FROM commits), 0) FROM stats_folded WHERE one = 1";
/// Holds the row, so that what is read next is behind whatever others have folded.
const HOLD: &str = "UPDATE stats_folded SET pos = pos WHERE one = 1 RETURNING pos";
const NOTES: &str = "SELECT last_pos, stats FROM commits WHERE last_pos > $1 ORDER BY last_pos LIMIT $2";
const MOVE: &str = "UPDATE stats_folded SET pos = $1 WHERE one = 1";

/// Adds to a row of sums. `{MIN}` and `{MAX}` are the scalar functions, which the databases name differently.
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
    /// Brings the sums up to all commits that there are now.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn fold_stats(&self) -> Result<(), StoreError> {
        let (mut folded, there): (i64, i64) =
            db::on_reader!(&self.db, pool => sqlx::query_as(HOW_FAR).fetch_one(pool).await)?;
        while folded < there {
            let Some(until) = self.fold_a_stretch().await? else { break };
            folded = until;
        }
        Ok(())
    }

    /// Folds the next commits. Returns up to which position; `None` if others had folded them all.
    async fn fold_a_stretch(&self) -> Result<Option<i64>, StoreError> {
        let add = match &self.db {
            Db::Sqlite(_) => ADD_SQLITE.as_str(),
            Db::Postgres(_) => ADD_POSTGRES.as_str(),
        };
        in_transaction!(&self.db, transaction => {
            let (from,): (i64,) = sqlx::query_as(HOLD).fetch_one(&mut *transaction).await?;
            let notes: Vec<(i64, Option<String>)> =
                sqlx::query_as(NOTES).bind(from).bind(STRETCH).fetch_all(&mut *transaction).await?;
            let until = notes.last().map(|(pos, _)| *pos);
            for (key, sum) in tally(&notes).rows() {
                sqlx::query(add)
                    .bind(key.tenant.to_string())
                    .bind(key.tool.to_string())
                    .bind(key.minute)
                    .bind(i16::from(key.executed))
                    .bind(key.code.to_string())
                    .bind(key.bucket)
                    .bind(sum.calls)
                    .bind(sum.total_ms)
                    .bind(sum.min_ms)
                    .bind(sum.max_ms)
                    .bind(sum.retries)
                    .bind(sum.last_at)
                    .execute(&mut *transaction)
                    .await?;
            }
            if let Some(until) = until {
                sqlx::query(MOVE).bind(until).execute(&mut *transaction).await?;
            }
            until
        })
    }
}

/// What the notes come to. One that cannot be read is told of and passed over, or nothing would be counted after it.
fn tally(notes: &[(i64, Option<String>)]) -> Tally {
    let mut tally = Tally::default();
    for (pos, note) in notes {
        if let Err(error) = note.as_deref().map_or(Ok(()), |note| tally.add_note(note)) {
            tracing::error!(pos, %error, "cannot decode the stats of a commit; its calls are missing from the statistics");
        }
    }
    tally
}
