//! A commit of exactly one new call, which is typical of a service with one caller at a time. It needs no arrays, which
//! would cost the server more than the row.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;

use super::super::batch::{Batch, RowImage};
use super::super::sql;
use crate::domain::Shard;
use crate::store::{codec, shards};

static COMMIT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + $1 WHERE shard = $23 RETURNING pos - $1 + 1 AS first),
         fresh AS (INSERT INTO tool_calls ({row})
            SELECT $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, first + $12, first + $13, first + $14, $15, $16, $21, $22 FROM clock),
         noted AS (INSERT INTO commits ({commit}) SELECT $17, first, first + $1 - 1, $18, $19, $20 FROM clock)
         SELECT first - 1 FROM clock",
        row = sql::ROW_COLUMNS,
        commit = sql::COMMIT_COLUMNS,
    )
});

/// Returns the row if it is all that the batch writes.
pub(super) fn of<'a, 'b>(batch: &'b Batch<'a>) -> Option<&'b RowImage<'a>> {
    let [row] = batch.rows.as_slice() else { return None };
    (batch.has_only_rows() && row.accepted.is_some()).then_some(row)
}

/// Writes the row and returns the position before its first event.
pub(super) async fn commit(
    connection: &mut PoolConnection<Postgres>,
    shard: Shard,
    batch: &Batch<'_>,
    row: &RowImage<'_>,
) -> Result<i64, sqlx::Error> {
    let call = row.call;
    let offset = |value: Option<i32>| value.map(i64::from);
    let (base,): (i64,) = sqlx::query_as(COMMIT.as_str())
        .bind(batch.positions())
        .bind(call.id)
        .bind(call.tenant.as_str())
        .bind(call.session.as_deref())
        .bind(call.batch_id)
        .bind(codec::indexed_name(&call.name))
        .bind(codec::status_number(call.status))
        .bind(call.attempts as i32)
        .bind(call.last_seq as i32)
        .bind(batch.node())
        .bind(call.created_at.0)
        .bind(offset(row.accepted))
        .bind(offset(row.started))
        .bind(offset(row.settled))
        .bind(call.arguments_text.get())
        .bind(row.record)
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .bind(batch.stats.note())
        .bind(codec::code_of(call))
        .bind(codec::slow_of(call))
        .bind(shards::column(shard))
        .fetch_one(&mut **connection)
        .await?;
    Ok(base)
}
