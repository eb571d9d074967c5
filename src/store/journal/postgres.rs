//! A commit on Postgres: one statement, and therefore one round trip and one transaction.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use uuid::Uuid;

use super::batch::{Batch, RowImage};
use super::commit::{CommitError, CommitResult};
use super::sql;
use crate::domain::Shard;
use crate::store::callbacks::CallbackRow;
use crate::store::{codec, idempotency, shards};

mod single_row;
mod uniform;

/// SQLSTATE raised by the SQL function `toolpost_expect`: guards rejected some rows, and nothing was written.
const NOT_ALL_WRITTEN: &str = "TP001";

/// Numeric values of a new row. They share one array, because each unnested array costs the server as much as a table
/// column. A missing value is -1.
const INSERT_NUMBERS: i64 = 9;
/// Numeric values of an updated row.
const UPDATE_NUMBERS: i64 = 7;

/// The statement in all combinations of its optional parts: updated calls, reported events, keys and callbacks,
/// replaced arguments, and several tenants. With a single tenant no tenant array is needed.
static COMMITS: LazyLock<[String; 32]> = LazyLock::new(|| {
    std::array::from_fn(|parts| {
        let has = |part: usize| parts & part > 0;
        statement(has(1), has(2), has(4), has(8), has(16))
    })
});

/// The first parameter of the optional parts.
const FIRST_MARK: usize = 16;

/// Allocates consecutive parameter numbers of a statement.
struct Marks(usize);

impl Marks {
    fn allocate<const N: usize>(&mut self) -> [usize; N] {
        let first = self.0;
        self.0 += N;
        std::array::from_fn(|index| first + index)
    }
}

/// Renders the check that every change was written. The SQL function runs only on a mismatch, because calling it is
/// costly.
fn completeness_check(updates: Option<usize>, claims: Option<usize>) -> String {
    let part = |count: Option<usize>, name: &str| {
        count.map(|mark| {
            format!("CASE (SELECT COUNT(*) FROM {name}) WHEN ${mark} THEN TRUE ELSE toolpost_expect(-1, ${mark}) END")
        })
    };
    let parts: Vec<String> = [part(updates, "again"), part(claims, "claimed")].into_iter().flatten().collect();
    if parts.is_empty() { "TRUE".to_owned() } else { parts.join(" AND ") }
}

fn statement(updates: bool, reports: bool, extra: bool, replaced: bool, mixed: bool) -> String {
    let mut marks = Marks(FIRST_MARK);
    // The tenant: one value for all rows, or a further array.
    let (tenant, of_inserts, column) = if mixed { ("tenant", ", $3::text[]", ", tenant") } else { ("$3", "", "") };
    // An insert writes all new rows or fails; only updates can skip rows.
    let (changed, expected_updates) = updates.then(|| updates_part(&mut marks, replaced)).unzip();
    let reported = if reports { reports_part(&mut marks) } else { String::new() };
    let (extras, expected_claims) = extra.then(|| claims_part(&mut marks, mixed)).unzip();
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + $1 WHERE shard = $15 RETURNING pos - $1 + 1 AS first),
         fresh AS (
            INSERT INTO tool_calls ({row})
            SELECT id, {tenant}, session, batch_id, tool, n[k - 8], n[k - 7], n[k - 6], $2, n[k - 5], first + n[k - 4],
                first + NULLIF(n[k - 3], -1), first + NULLIF(n[k - 2], -1), arguments, record,
                NULLIF(n[k - 1], -1), NULLIF(n[k], -1)
            FROM (SELECT id, session, batch_id, tool, arguments, record{column}, number * {INSERT_NUMBERS} AS k, $4::int8[] AS n,
                    (SELECT first FROM clock) AS first
                FROM UNNEST($5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[]{of_inserts})
                    WITH ORDINALITY AS i (id, session, batch_id, tool, arguments, record{column}, number)) AS rows),
         {changed}
         {reported}
         {extras}
         noted AS (
            INSERT INTO commits ({commit}) SELECT $11, first, first + $1 - 1, $12, $13, $14 FROM clock)
         SELECT first - 1, {completeness_check} FROM clock",
        row = sql::ROW_COLUMNS,
        commit = sql::COMMIT_COLUMNS,
        changed = changed.unwrap_or_default(),
        extras = extras.unwrap_or_default(),
        completeness_check = completeness_check(expected_updates, expected_claims),
    )
}

/// Returns the part that updates calls, and the parameter for their number.
fn updates_part(marks: &mut Marks, replaced: bool) -> (String, usize) {
    let [id, numbers, record, expected] = marks.allocate();
    let (mut array, mut given, mut update) = (String::new(), "", sql::UPDATE_ROWS.to_owned());
    if replaced {
        let [arguments] = marks.allocate();
        (array, given) = (format!(", ${arguments}::text[]"), ", arguments");
        update = sql::update_rows_with_arguments();
    }
    let part = format!(
        "u AS (SELECT id, n[k - 6] AS status, n[k - 5] AS attempt, n[k - 4] AS seq, $2 AS node,
            first + NULLIF(n[k - 3], -1) AS started, first + NULLIF(n[k - 2], -1) AS settled,
            NULLIF(n[k - 1], -1) AS code, NULLIF(n[k], -1) AS slow, record{given}
            FROM (SELECT id, record{given}, number * {UPDATE_NUMBERS} AS k, ${numbers}::int8[] AS n,
                    (SELECT first FROM clock) AS first
                FROM UNNEST(${id}::uuid[], ${record}::text[]{array})
                    WITH ORDINALITY AS i (id, record{given}, number)) AS rows),
         again AS ({update} RETURNING 1),"
    );
    (part, expected)
}

/// Returns the part that inserts reported events.
fn reports_part(marks: &mut Marks) -> String {
    let [call, seq, pos, kind, data] = marks.allocate();
    format!(
        "told AS (INSERT INTO call_events ({})
            SELECT call_id, seq, (SELECT first FROM clock) + pos, kind, data
            FROM UNNEST(${call}::uuid[], ${seq}::int4[], ${pos}::int4[], ${kind}::text[], ${data}::text[])
                AS e (call_id, seq, pos, kind, data)),",
        sql::EVENT_COLUMNS
    )
}

/// Returns the part that claims keys and inserts callbacks, and the parameter for the number of keys.
fn claims_part(marks: &mut Marks, mixed: bool) -> (String, usize) {
    let [key, fingerprint, batch, calls, expires, expected] = marks.allocate();
    let [callbacks, _, _, _] = marks.allocate();
    let (mut tenant, mut array, mut column) = ("$3", String::new(), "");
    if mixed {
        let [tenants] = marks.allocate();
        (tenant, array, column) = ("tenant", format!(", ${tenants}::text[]"), ", tenant");
    }
    let part = format!(
        "claimed AS (INSERT INTO idempotency_keys AS k ({})
            SELECT {tenant}, key, fingerprint, batch_id, calls, ${expires} FROM
            UNNEST(${key}::bytea[], ${fingerprint}::bytea[], ${batch}::uuid[], ${calls}::bytea[]{array})
                AS i (key, fingerprint, batch_id, calls{column}) {} RETURNING 1),
         called AS ({}),",
        sql::CLAIM_COLUMNS,
        sql::REPLACE_EXPIRED_CLAIM.replace("{NOW}", "$12"),
        CallbackRow::insert_from_arrays(callbacks)
    );
    (part, expected)
}

/// Returns an empty array if all values are `None`. The server reads missing elements as NULL, at no cost.
fn empty_if_all_none<T>(values: Vec<Option<T>>) -> Vec<Option<T>> {
    if values.iter().all(Option::is_none) { Vec::new() } else { values }
}

fn numbers(row: &RowImage<'_>) -> [i64; INSERT_NUMBERS as usize] {
    let [status, attempt, seq, started, settled, code, slow] = update_numbers(row);
    let accepted = position_or_minus_one(row.accepted);
    [status, attempt, seq, row.call.created_at.0, accepted, started, settled, code, slow]
}

fn update_numbers(row: &RowImage<'_>) -> [i64; UPDATE_NUMBERS as usize] {
    let status = i64::from(codec::status_number(row.call.status));
    let (attempt, seq) = (i64::from(row.call.attempts), i64::from(row.call.last_seq));
    let (code, slow) = (codec::code_of(row.call).map_or(-1, i64::from), codec::slow_of(row.call).map_or(-1, i64::from));
    [status, attempt, seq, position_or_minus_one(row.started), position_or_minus_one(row.settled), code, slow]
}

fn position_or_minus_one(offset: Option<i32>) -> i64 {
    offset.map_or(-1, i64::from)
}

/// A commit that returns the position before its first event.
type Commit<'q> = QueryAs<'q, Postgres, (i64, bool), PgArguments>;

/// Writes the batch and returns the position before its first event.
pub(super) async fn commit(connection: &mut PoolConnection<Postgres>, shard: Shard, batch: &Batch<'_>) -> CommitResult {
    if let Some(row) = single_row::of(batch) {
        return Ok(single_row::commit(connection, shard, batch, row).await?);
    }
    if let Some(shared) = uniform::of(batch) {
        return uniform::commit(connection, shard, batch, shared).await.map_err(not_all_written);
    }
    let inserts: Vec<&RowImage<'_>> = batch.inserts().collect();
    let updates: Vec<&RowImage<'_>> = batch.updates().collect();
    let calls = || inserts.iter().map(|row| row.call);
    let tenant = batch.tenant();
    let extra = !(batch.claims.is_empty() && batch.callbacks.is_empty());
    let replaced = batch.replaces_arguments();
    let parts = usize::from(!updates.is_empty())
        | usize::from(!batch.reported.is_empty()) << 1
        | usize::from(extra) << 2
        | usize::from(replaced) << 3
        | usize::from(tenant.is_none()) << 4;
    let query: Commit<'_> = sqlx::query_as(COMMITS[parts].as_str()).bind(batch.positions()).bind(batch.node());
    let query = match tenant {
        Some(tenant) => query.bind(tenant.as_str()),
        None => query.bind(calls().map(|call| call.tenant.as_str()).collect::<Vec<_>>()),
    };
    let mut query = query
        .bind(inserts.iter().flat_map(|row| numbers(row)).collect::<Vec<_>>())
        .bind(calls().map(|call| call.id).collect::<Vec<_>>())
        .bind(empty_if_all_none(calls().map(|call| call.session.as_deref()).collect()))
        .bind(empty_if_all_none(calls().map(|call| call.batch_id).collect()))
        .bind(calls().map(|call| codec::indexed_name(&call.name)).collect::<Vec<_>>())
        .bind(calls().map(|call| call.arguments_text.get()).collect::<Vec<_>>())
        .bind(inserts.iter().map(|row| row.record).collect::<Vec<_>>())
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .bind(batch.stats.note())
        .bind(shards::column(shard));
    if !updates.is_empty() {
        query = query
            .bind(updates.iter().map(|row| row.call.id).collect::<Vec<_>>())
            .bind(updates.iter().flat_map(|row| update_numbers(row)).collect::<Vec<_>>())
            .bind(updates.iter().map(|row| row.record).collect::<Vec<_>>())
            .bind(updates.len() as i64);
    }
    if replaced {
        query = query.bind(updates.iter().map(|row| row.arguments).collect::<Vec<_>>());
    }
    if !batch.reported.is_empty() {
        query = bind_reports(query, batch);
    }
    if extra {
        query = bind_claims(query, batch);
    }
    let (base, _) = query.fetch_one(&mut **connection).await.map_err(not_all_written)?;
    Ok(base)
}

fn bind_reports<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let reported = || batch.reported.iter();
    query
        .bind(reported().map(|row| row.call).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.seq as i32).collect::<Vec<_>>())
        .bind(reported().map(|row| row.offset).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.kind.as_str()).collect::<Vec<_>>())
        .bind(reported().map(|row| row.reported.data.as_str()).collect::<Vec<_>>())
}

fn bind_claims<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let (claims, callbacks) = (|| batch.claims.iter().map(|(_, claim)| *claim), || batch.callbacks.iter());
    let query = query
        .bind(claims().map(|claim| claim.once.key.to_vec()).collect::<Vec<_>>())
        .bind(claims().map(|claim| claim.once.fingerprint.to_vec()).collect::<Vec<_>>())
        .bind(claims().map(|claim| claim.batch_id).collect::<Vec<_>>())
        .bind(claims().map(|claim| codec::concat_ids(&claim.calls)).collect::<Vec<_>>())
        .bind(batch.at.plus_millis(idempotency::KEPT_MS).0)
        .bind(batch.claims.len() as i64)
        .bind(callbacks().map(|row| row.call_id).collect::<Vec<_>>())
        .bind(callbacks().map(|row| &*row.url).collect::<Vec<_>>())
        .bind(callbacks().map(CallbackRow::host).collect::<Vec<_>>())
        .bind(callbacks().map(|row| row.event_id).collect::<Vec<_>>());
    if batch.tenant().is_some() {
        return query;
    }
    query.bind(batch.claims.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
}

fn not_all_written(error: sqlx::Error) -> CommitError {
    match error.as_database_error().and_then(|error| error.code()) {
        Some(code) if code == NOT_ALL_WRITTEN => CommitError::NotAllWritten,
        _ => CommitError::Database(error),
    }
}

/// Looks up a commit that may have succeeded after position `after`. Returns the position before its first event.
pub(super) async fn find(
    connection: &mut PoolConnection<Postgres>,
    after: i64,
    id: Uuid,
) -> Result<Option<i64>, sqlx::Error> {
    let found: Option<(i64,)> = {
        let end = Shard::of_position(after).end();
        sqlx::query_as(sql::FIND_COMMIT).bind(after).bind(end).bind(id).fetch_optional(&mut **connection).await?
    };
    Ok(found.map(|(first,)| first - 1))
}
