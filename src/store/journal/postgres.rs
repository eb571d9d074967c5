//! A commit on Postgres: one statement, so one round trip and one transaction.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use super::batch::Batch;
use super::sql;
use super::writer::{CommitError, CommitResult};
use crate::store::codec;

/// SQLSTATE of `toolpost_expect`: some rows were refused, and so nothing was written.
const NOT_ALL_WRITTEN: &str = "TP001";

static COMMIT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + $1 RETURNING pos - $1 AS base),
         written AS (
            INSERT INTO tool_calls AS c ({row})
            SELECT id, tenant, session, batch_id, batch_index, tool, status, code, attempt, node, created_at,
                started_at, ended_at, base + 1 + accepted, base + 1 + started, base + 1 + settled, arguments, record
            FROM clock, UNNEST($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::int4[], $7::text[], $8::int2[],
                $9::text[], $10::int4[], $11::text[], $12::int8[], $13::int8[], $14::int8[], $15::int8[],
                $16::int8[], $17::int8[], $18::text[], $19::text[])
                AS i (id, tenant, session, batch_id, batch_index, tool, status, code, attempt, node, created_at,
                    started_at, ended_at, accepted, started, settled, arguments, record)
            {row_again} RETURNING 1),
         counted AS (
            INSERT INTO tool_stats AS s ({stats})
            SELECT * FROM UNNEST($20::text[], $21::text[], $22::int8[], $23::int2[], $24::text[], $25::int4[],
                $26::int8[], $27::int8[], $28::int8[], $29::int8[], $30::int8[], $31::int8[])
            {stats_again}),
         told AS (
            INSERT INTO call_events ({event})
            SELECT call_id, seq, base + 1 + pos, kind, data
            FROM clock, UNNEST($32::uuid[], $33::int4[], $34::int8[], $35::text[], $36::text[])
                AS e (call_id, seq, pos, kind, data)),
         noted AS (
            INSERT INTO commits ({commit}) SELECT $37, base + 1, base + $1, $38, $39 FROM clock)
         SELECT base, toolpost_expect((SELECT COUNT(*) FROM written), $40) FROM clock",
        row = sql::ROW,
        row_again = sql::ROW_AGAIN,
        stats = sql::STATS,
        stats_again = sql::STATS_AGAIN.replace("{MIN}", "LEAST").replace("{MAX}", "GREATEST"),
        event = sql::EVENT,
        commit = sql::COMMIT,
    )
});

/// Writes the batch; returns the position before its first event.
pub(super) async fn commit(connection: &mut PoolConnection<Postgres>, batch: &Batch<'_>) -> CommitResult {
    let rows = &batch.rows;
    let calls = || rows.iter().map(|row| row.call);
    // The statement's text is a constant of this program.
    let query = sqlx::query_as::<_, (i64, bool)>(COMMIT.as_str())
        .bind(batch.positions())
        .bind(calls().map(|call| call.id).collect::<Vec<_>>())
        .bind(calls().map(|call| call.tenant.as_str()).collect::<Vec<_>>())
        .bind(calls().map(|call| call.session.as_deref()).collect::<Vec<_>>())
        .bind(calls().map(|call| call.batch_id).collect::<Vec<_>>())
        .bind(calls().map(|call| call.index as i32).collect::<Vec<_>>())
        .bind(calls().map(|call| codec::indexed_name(&call.name).into_owned()).collect::<Vec<_>>())
        .bind(calls().map(|call| codec::status_number(call.status)).collect::<Vec<_>>())
        .bind(calls().map(|call| codec::code(call)).collect::<Vec<_>>())
        .bind(calls().map(|call| call.attempts as i32).collect::<Vec<_>>())
        .bind(calls().map(|call| &*call.node).collect::<Vec<_>>())
        .bind(calls().map(|call| call.created_at.0).collect::<Vec<_>>())
        .bind(calls().map(|call| call.started_at.map(|at| at.0)).collect::<Vec<_>>())
        .bind(calls().map(|call| call.ended_at.map(|at| at.0)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.accepted.unwrap_or(0)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.started).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.settled).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.arguments).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.record).collect::<Vec<_>>());
    let stats = || batch.stats.iter();
    let tenant = crate::domain::Tenant::default();
    let query = query
        .bind(stats().map(|_| tenant.as_str()).collect::<Vec<_>>())
        .bind(stats().map(|(key, _)| &*key.0).collect::<Vec<_>>())
        .bind(stats().map(|(key, _)| key.1).collect::<Vec<_>>())
        .bind(stats().map(|(key, _)| i16::from(key.2)).collect::<Vec<_>>())
        .bind(stats().map(|(key, _)| key.3).collect::<Vec<_>>())
        .bind(stats().map(|(key, _)| key.4).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.calls).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.total_ms).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.min_ms).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.max_ms).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.retries).collect::<Vec<_>>())
        .bind(stats().map(|(_, sum)| sum.last_at).collect::<Vec<_>>());
    let reported = || batch.reported.iter();
    let query = query
        .bind(reported().map(|row| row.call).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.seq as i32).collect::<Vec<_>>())
        .bind(reported().map(|row| row.offset).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.kind.as_str()).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.data.as_str()).collect::<Vec<_>>());
    let query = query.bind(batch.id).bind(batch.at.0).bind(batch.call_ids()).bind(rows.len() as i64);
    let (base, _) = query.fetch_one(&mut **connection).await.map_err(not_all_written)?;
    Ok(base)
}

fn not_all_written(error: sqlx::Error) -> CommitError {
    match error.as_database_error().and_then(|error| error.code()) {
        Some(code) if code == NOT_ALL_WRITTEN => CommitError::NotAllWritten,
        _ => CommitError::Database(error),
    }
}

/// The position before the first event of a commit that may have been made.
pub(super) async fn find(connection: &mut PoolConnection<Postgres>, id: Uuid) -> Result<Option<i64>, sqlx::Error> {
    let found: Option<(i64,)> = sqlx::query_as(sql::FIND_COMMIT).bind(id).fetch_optional(&mut **connection).await?;
    Ok(found.map(|(first,)| first - 1))
}
