//! A commit on SQLite: a few multi-row statements in one `BEGIN IMMEDIATE` transaction.

use std::fmt::Write;
use std::sync::LazyLock;

use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteArguments;
use uuid::Uuid;

use super::batch::{Batch, RowImage};
use super::sql;
use super::writer::{CommitError, CommitResult};
use crate::store::codec;

/// Rows a statement, largest first; few sizes, so that each is prepared once.
const CHUNKS: [usize; 4] = [64, 16, 4, 1];

/// A statement for each size of chunk.
struct Statements([String; CHUNKS.len()]);

impl Statements {
    /// `head VALUES (…), (…) tail`, with `columns` values a row.
    fn new(head: &str, columns: usize, tail: &str) -> Self {
        Self(CHUNKS.map(|rows| {
            let mut text = format!("{head} VALUES ");
            for row in 0..rows {
                let first = row * columns + 1;
                let marks: Vec<String> = (first..first + columns).map(|number| format!("${number}")).collect();
                let comma = if row == 0 { "" } else { ", " };
                let _ = write!(text, "{comma}({})", marks.join(", "));
            }
            format!("{text} {tail}")
        }))
    }

    /// Runs the statement over all rows; returns how many were written.
    async fn run<T>(
        &'static self,
        connection: &mut PoolConnection<Sqlite>,
        mut rows: &[T],
        bind: impl Fn(Query, &T) -> Query,
    ) -> Result<u64, sqlx::Error> {
        let mut written = 0;
        while !rows.is_empty() {
            // The last size is one, so there is always a fitting one.
            let size = CHUNKS.iter().position(|size| *size <= rows.len()).unwrap_or(CHUNKS.len() - 1);
            let (chunk, rest) = rows.split_at(CHUNKS[size]);
            rows = rest;
            let query = chunk.iter().fold(sqlx::query(self.0[size].as_str()), &bind);
            written += query.execute(&mut **connection).await?.rows_affected();
        }
        Ok(written)
    }
}

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

static ROWS: LazyLock<Statements> =
    LazyLock::new(|| Statements::new(&format!("INSERT INTO tool_calls AS c ({})", sql::ROW), 18, sql::ROW_AGAIN));
static STATS: LazyLock<Statements> = LazyLock::new(|| {
    let again = sql::STATS_AGAIN.replace("{MIN}", "MIN").replace("{MAX}", "MAX");
    Statements::new(&format!("INSERT INTO tool_stats AS s ({})", sql::STATS), 12, &again)
});
static EVENTS: LazyLock<Statements> =
    LazyLock::new(|| Statements::new(&format!("INSERT INTO call_events ({})", sql::EVENT), 5, ""));
static COMMITS: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO commits ({}) VALUES ($1, $2, $3, $4, $5)", sql::COMMIT));

const TAKE_POSITIONS: &str = "UPDATE event_clock SET pos = pos + $1 RETURNING pos - $1";

/// Writes the batch; returns the position before its first event.
pub(super) async fn commit(connection: &mut PoolConnection<Sqlite>, batch: &Batch<'_>) -> CommitResult {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut **connection).await?;
    let written = write(connection, batch).await;
    let ended = match &written {
        Ok(_) => sqlx::query("COMMIT").execute(&mut **connection).await.map(|_| ()),
        Err(_) => Ok(()),
    };
    if written.is_err() || ended.is_err() {
        // Fails where the transaction is gone already, which is what is wanted.
        let _ = sqlx::query("ROLLBACK").execute(&mut **connection).await;
    }
    ended?;
    written
}

async fn write(connection: &mut PoolConnection<Sqlite>, batch: &Batch<'_>) -> CommitResult {
    let (base,): (i64,) = sqlx::query_as(TAKE_POSITIONS).bind(batch.positions()).fetch_one(&mut **connection).await?;
    let written = ROWS.run(connection, &batch.rows, |query, row| bind_row(query, row, base + 1)).await?;
    if written != batch.rows.len() as u64 {
        return Err(CommitError::NotAllWritten);
    }
    let stats: Vec<_> = batch.stats.iter().collect();
    let tenant = crate::domain::Tenant::default();
    STATS
        .run(connection, &stats, |query, (key, sum)| {
            query
                .bind(tenant.as_str().to_owned())
                .bind(key.0.to_string())
                .bind(key.1)
                .bind(i16::from(key.2))
                .bind(key.3)
                .bind(key.4)
                .bind(sum.calls)
                .bind(sum.total_ms)
                .bind(sum.min_ms)
                .bind(sum.max_ms)
                .bind(sum.retries)
                .bind(sum.last_at)
        })
        .await?;
    EVENTS
        .run(connection, &batch.reported, |query, row| {
            query
                .bind(row.call)
                .bind(row.reported.seq as i32)
                .bind(base + 1 + row.offset)
                .bind(row.reported.kind.as_str())
                .bind(row.reported.data.clone())
        })
        .await?;
    sqlx::query(COMMITS.as_str())
        .bind(batch.id)
        .bind(base + 1)
        .bind(base + batch.positions())
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .execute(&mut **connection)
        .await?;
    Ok(base)
}

fn bind_row(query: Query, row: &RowImage<'_>, first: i64) -> Query {
    let call = &row.call;
    query
        .bind(call.id)
        .bind(call.tenant.as_str().to_owned())
        .bind(call.session.as_deref().map(str::to_owned))
        .bind(call.batch_id)
        .bind(call.index as i32)
        .bind(codec::indexed_name(&call.name).into_owned())
        .bind(codec::status_number(call.status))
        .bind(codec::code(call))
        .bind(call.attempts as i32)
        .bind(call.node.to_string())
        .bind(call.created_at.0)
        .bind(call.started_at.map(|at| at.0))
        .bind(call.ended_at.map(|at| at.0))
        .bind(first + row.accepted.unwrap_or(0))
        .bind(row.started.map(|offset| first + offset))
        .bind(row.settled.map(|offset| first + offset))
        .bind(row.arguments.to_owned())
        .bind(row.record.to_owned())
}

/// The position before the first event of a commit that may have been made.
pub(super) async fn find(connection: &mut PoolConnection<Sqlite>, id: Uuid) -> Result<Option<i64>, sqlx::Error> {
    let found: Option<(i64,)> = sqlx::query_as(sql::FIND_COMMIT).bind(id).fetch_optional(&mut **connection).await?;
    Ok(found.map(|(first,)| first - 1))
}
