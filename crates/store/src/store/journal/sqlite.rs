//! A commit on SQLite: a few multi-row statements in one `BEGIN IMMEDIATE` transaction.

use std::sync::{LazyLock, OnceLock};

use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};
use uuid::Uuid;

use super::batch::{Batch, RowImage};
use super::commit::{CommitError, CommitResult, FIND_COMMIT};
use crate::store::callbacks::CallbackRow;
use crate::store::db::Pools;
use crate::store::nodes::NOW_ON_SQLITE;
use crate::store::workers::Offer;
use crate::store::{StoreError, codec, idempotency};
use toolpost_core::domain::{KeyClaim, Shard, Tenant, Time};

/// Maximum number of rows of a statement.
const MAX_ROWS: usize = 64;
/// Above this number, only multiples of it are used: each size is a separate statement, prepared on first use.
const STEP: usize = 8;

/// Returns the number of rows for the next statement.
fn chunk(rows: usize) -> usize {
    if rows <= STEP { rows } else { (rows - rows % STEP).min(MAX_ROWS) }
}

/// One statement for each number of rows, built on first use.
struct Statements {
    head: String,
    columns: usize,
    tail: String,
    texts: [OnceLock<String>; MAX_ROWS + 1],
}

impl Statements {
    /// Creates statements of the form `head VALUES (…), (…) tail`, with `columns` values a row.
    fn new(head: &str, columns: usize, tail: &str) -> Self {
        Self { head: head.to_owned(), columns, tail: tail.to_owned(), texts: [const { OnceLock::new() }; MAX_ROWS + 1] }
    }

    fn text(&'static self, rows: usize) -> &'static str {
        self.texts[rows].get_or_init(|| {
            // Numbered parameters would be looked up by name for every value.
            let marks = format!("({})", vec!["?"; self.columns].join(", "));
            format!("{} VALUES {} {}", self.head, vec![marks; rows].join(", "), self.tail)
        })
    }

    /// Runs the statement over all rows and returns the number of rows written.
    async fn run<T>(
        &'static self,
        connection: &mut SqliteConnection,
        mut rows: &[T],
        bind: impl Fn(Query, &T) -> Query,
    ) -> Result<u64, sqlx::Error> {
        let mut written = 0;
        while !rows.is_empty() {
            let (now, later) = rows.split_at(chunk(rows.len()));
            rows = later;
            let query = now.iter().fold(sqlx::query(self.text(now.len())), &bind);
            written += query.execute(&mut *connection).await?.rows_affected();
        }
        Ok(written)
    }
}

/// Columns of a new call's row, in binding order.
const ROW_COLUMNS: &str = "shard, id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos, \
     started_pos, settled_pos, arguments, record, code, slow";

/// Updates stored calls from a list `u` of changes. The fence skips a row that has ended, belongs to a later attempt or
/// to another node, or already has these events; a skipped row does not count as written. `+ 0` makes the
/// database find rows by primary key instead of the index of unfinished calls.
const UPDATE_ROWS: &str = "UPDATE tool_calls AS c SET status = u.status, attempt = u.attempt, seq = u.seq, \
     started_pos = COALESCE(c.started_pos, u.started), settled_pos = u.settled, record = u.record, \
     code = u.code, slow = u.slow \
     FROM u WHERE c.id = u.id AND c.status + 0 < 2 AND c.attempt <= u.attempt AND c.seq < u.seq AND c.node = u.node";

/// Returns [`UPDATE_ROWS`] extended by the arguments. It is a separate statement because few changes replace arguments,
/// and each column has a cost.
fn update_rows_with_arguments() -> String {
    UPDATE_ROWS.replacen("SET ", "SET arguments = COALESCE(u.arguments, c.arguments), ", 1)
}

/// Columns of a reported event.
const EVENT_COLUMNS: &str = "shard, call_id, seq, pos, kind, data";

/// Columns of a claimed idempotency key.
const CLAIM_COLUMNS: &str = "tenant, key, fingerprint, batch_id, calls, expires_at";

/// Replaces an expired key. An unexpired key is left unchanged and does not count as written. `{NOW}` is the current
/// time.
const REPLACE_EXPIRED_CLAIM: &str = "ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, \
     batch_id = excluded.batch_id, calls = excluded.calls, expires_at = excluded.expires_at \
     WHERE k.expires_at <= {NOW}";

/// Columns of a commit.
const COMMIT_COLUMNS: &str = "shard, id, first_pos, last_pos, at, calls, stats";

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

static INSERTS: LazyLock<Statements> =
    LazyLock::new(|| Statements::new(&format!("INSERT INTO tool_calls ({})", ROW_COLUMNS), 18, ""));
static UPDATES: LazyLock<Statements> = LazyLock::new(|| {
    let head = "WITH u (id, status, attempt, seq, node, started, settled, record, code, slow) AS (";
    Statements::new(head, 10, &format!(") {}", UPDATE_ROWS))
});
static UPDATES_WITH_ARGUMENTS: LazyLock<Statements> = LazyLock::new(|| {
    let head = "WITH u (id, status, attempt, seq, node, started, settled, record, code, slow, arguments) AS (";
    Statements::new(head, 11, &format!(") {}", update_rows_with_arguments()))
});
static EVENTS: LazyLock<Statements> =
    LazyLock::new(|| Statements::new(&format!("INSERT INTO call_events ({})", EVENT_COLUMNS), 6, ""));
static CLAIMS: LazyLock<Statements> = LazyLock::new(|| {
    // The new row's expiry implies the time of the commit, so no parameter is needed.
    let tail =
        REPLACE_EXPIRED_CLAIM.replace("{NOW}", &format!("excluded.expires_at - {}", idempotency::KEPT_MS * 1000));
    Statements::new(&format!("INSERT INTO idempotency_keys AS k ({})", CLAIM_COLUMNS), 6, &tail)
});
static CALLBACKS: LazyLock<Statements> = LazyLock::new(|| Statements::new(&CallbackRow::insert_head(), 5, ""));
static OFFERS: LazyLock<Statements> = LazyLock::new(|| {
    let head = "WITH o (call_id, tenant, queue, tool, priority, attempt, node, lease_ms, worker) AS (";
    let tail = format!(
        ") INSERT INTO worker_calls (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, lease_ms, \
         worker, claimed_at, lease_until) SELECT call_id, tenant, queue, tool, priority, attempt, 1, node, {NOW_ON_SQLITE}, \
         lease_ms, worker, {NOW_ON_SQLITE}, {NOW_ON_SQLITE} + lease_ms FROM o"
    );
    Statements::new(head, 9, &tail)
});
static COMMITS: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO commits ({COMMIT_COLUMNS}) VALUES (0, $1, $2, $3, $4, $5, $6)"));

const ALLOCATE_POSITIONS: &str = "UPDATE event_clock SET pos = pos + $1 WHERE shard = 0 RETURNING pos - $1";

/// Writes the batch and returns the position before its first event.
pub(super) async fn commit(pools: &Pools<Sqlite>, batch: &Batch<'_>) -> CommitResult {
    let mut connection = pools.writer.lease().await?;
    connection.begin().await?;
    let written = write(&mut connection, batch).await;
    connection.end(written).await?.ok_or(CommitError::NotAllWritten)
}

/// Writes the batch. Returns the position before its first event, or `None` if the guards of some rows rejected it.
async fn write(connection: &mut SqliteConnection, batch: &Batch<'_>) -> Result<Option<i64>, StoreError> {
    let (base,): (i64,) =
        sqlx::query_as(ALLOCATE_POSITIONS).bind(batch.positions()).fetch_one(&mut *connection).await?;
    let (inserts, updates): (Vec<_>, Vec<_>) = (batch.inserts().collect(), batch.updates().collect());
    let mut written = INSERTS.run(connection, &inserts, |query, row| bind_insert(query, row, base + 1)).await?;
    written += if batch.replaces_arguments() {
        let bind = |query: Query, row: &&RowImage<'_>| {
            bind_update(query, row, base + 1).bind(row.arguments.map(str::to_owned))
        };
        UPDATES_WITH_ARGUMENTS.run(connection, &updates, bind).await?
    } else {
        UPDATES.run(connection, &updates, |query, row| bind_update(query, row, base + 1)).await?
    };
    if written != batch.rows.len() as u64 {
        return Ok(None);
    }
    let claimed = CLAIMS.run(connection, &batch.claims, |query, claim| bind_claim(query, claim, batch.at)).await?;
    if claimed != batch.claims.len() as u64 {
        return Ok(None);
    }
    CALLBACKS
        .run(connection, &batch.callbacks, |query, row| {
            let query = query.bind(codec::shard_of_call(row.call_id)).bind(row.call_id).bind(row.url.to_string());
            query.bind(row.host()).bind(row.event_id)
        })
        .await?;
    OFFERS.run(connection, &batch.offers, |query, offer| bind_offer(query, offer, batch.node())).await?;
    EVENTS
        .run(connection, &batch.reported, |query, row| {
            query
                .bind(codec::shard_of_call(row.call))
                .bind(row.call)
                .bind(row.reported.seq as i32)
                .bind(base + 1 + i64::from(row.offset))
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
        .bind(batch.stats.note())
        .execute(&mut *connection)
        .await?;
    Ok(Some(base))
}

fn bind_insert(query: Query, row: &&RowImage<'_>, first: i64) -> Query {
    let call = row.call;
    query
        .bind(codec::shard_of_call(call.id))
        .bind(call.id)
        .bind(call.tenant.as_str().to_owned())
        .bind(call.session.as_deref().map(str::to_owned))
        .bind(call.batch_id)
        .bind(codec::indexed_name(&call.name).into_owned())
        .bind(codec::status_number(call.status))
        .bind(call.attempts as i32)
        .bind(call.last_seq as i32)
        .bind(call.node.to_string())
        .bind(call.created_at.0)
        .bind(row.accepted.map(|offset| first + i64::from(offset)))
        .bind(row.started.map(|offset| first + i64::from(offset)))
        .bind(row.settled.map(|offset| first + i64::from(offset)))
        .bind(call.arguments_text.shared())
        .bind(row.record.to_owned())
        .bind(codec::code_of(call))
        .bind(codec::slow_of(call))
}

fn bind_update(query: Query, row: &&RowImage<'_>, first: i64) -> Query {
    query
        .bind(row.call.id)
        .bind(codec::status_number(row.call.status))
        .bind(row.call.attempts as i32)
        .bind(row.call.last_seq as i32)
        .bind(row.call.node.to_string())
        .bind(row.started.map(|offset| first + i64::from(offset)))
        .bind(row.settled.map(|offset| first + i64::from(offset)))
        .bind(row.record.to_owned())
        .bind(codec::code_of(row.call))
        .bind(codec::slow_of(row.call))
}

fn bind_claim(query: Query, (tenant, claim): &(&Tenant, &KeyClaim), now: Time) -> Query {
    query
        .bind(tenant.as_str().to_owned())
        .bind(claim.once.key.to_vec())
        .bind(claim.once.fingerprint.to_vec())
        .bind(claim.batch_id)
        .bind(codec::concat_ids(&claim.calls))
        .bind(now.plus_millis(idempotency::KEPT_MS).0)
}

fn bind_offer(query: Query, offer: &Offer, node: &str) -> Query {
    query
        .bind(offer.call)
        .bind(offer.tenant.as_str().to_owned())
        .bind(offer.queue.to_string())
        .bind(codec::indexed_name(&offer.tool).into_owned())
        .bind(offer.priority)
        .bind(offer.attempt_column())
        .bind(node.to_owned())
        .bind(offer.lease_column())
        .bind(offer.worker.as_deref().map(str::to_owned))
}

/// Looks up a commit that may have succeeded after position `after`. Returns the position before its first event.
pub(super) async fn find(pools: &Pools<Sqlite>, after: i64, id: Uuid) -> Result<Option<i64>, CommitError> {
    let shard = codec::shard_column(Shard::of_position(after));
    let mut connection = pools.writer.lease().await?;
    let query = sqlx::query_scalar(FIND_COMMIT).bind(shard).bind(after).bind(id);
    let found: Option<i64> = query.fetch_optional(&mut *connection).await?;
    Ok(found.map(|first| first - 1))
}
