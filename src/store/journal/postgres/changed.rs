//! A commit of alike changes to calls that are there already: the ends of calls that were recorded before they ran, as many
//! callers of one tool make them. It says once what all have in common, and has no part that it does not need.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;

use super::super::batch::Batch;
use super::super::sql;
use super::alike::Alike;
use super::complete;

static COMMIT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + $1 WHERE one = 1 RETURNING pos - $1 + 1 AS first),
         u AS (SELECT id, $10::int2 AS status, $11::int4 AS attempt, $12::int4 AS seq, $2 AS node,
                first + (k - 1) * $13::int4 + $14::int4 AS started, first + (k - 1) * $13 + $15::int4 AS settled, record
            FROM (SELECT id, record, k, (SELECT first FROM clock) AS first
                FROM UNNEST($3::uuid[], $4::text[]) WITH ORDINALITY AS i (id, record, k)) AS rows),
         again AS ({update} RETURNING 1),
         noted AS (
            INSERT INTO commits ({commit}) SELECT $5, first, first + $1 - 1, $6, $7, $8 FROM clock)
         SELECT first - 1, {complete} FROM clock",
        update = sql::ROW_AGAIN,
        commit = sql::COMMIT,
        complete = complete(Some(9), None),
    )
});

/// What the changes have in common, if they are all that the batch writes.
pub(super) fn of(batch: &Batch<'_>) -> Option<Alike> {
    if !batch.is_of_rows_only() || batch.fresh().next().is_some() || batch.replaces_arguments() {
        return None;
    }
    Alike::of(&batch.rows.iter().collect::<Vec<_>>())
}

/// Writes them; returns the position before the first event.
pub(super) async fn commit(
    connection: &mut PoolConnection<Postgres>,
    batch: &Batch<'_>,
    alike: Alike,
) -> Result<i64, sqlx::Error> {
    let query = sqlx::query_as(COMMIT.as_str())
        .bind(batch.positions())
        .bind(batch.node())
        .bind(batch.rows.iter().map(|row| row.call.id).collect::<Vec<_>>())
        .bind(batch.rows.iter().map(|row| row.record).collect::<Vec<_>>())
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .bind(batch.stats.note())
        .bind(batch.rows.len() as i64);
    let (base, _): (i64, bool) = alike.bound_to(query).fetch_one(&mut **connection).await?;
    Ok(base)
}
