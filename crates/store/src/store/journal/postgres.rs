//! A commit on Postgres: one call of the SQL function `journal_commit`, and therefore one round trip and one
//! transaction. A commit with idempotency keys calls `journal_commit_with_keys`, one with claims of workers calls
//! `journal_commit_with_claims`, and a commit of a single row calls a function of its own.

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use uuid::Uuid;

use super::batch::{Batch, RowImage};
use super::commit::{CommitError, CommitResult, FIND_COMMIT};
use crate::store::callbacks::CallbackRow;
use crate::store::workers::Offer;
use crate::store::{codec, idempotency, partitions};
use toolpost_core::domain::Shard;

mod single_row;

/// SQLSTATE raised by the functions: guards rejected some rows, and nothing was written.
const NOT_ALL_WRITTEN: &str = "TP001";
/// SQLSTATE of a row for which there is no partition. The tables have no check that could raise it.
const NO_PARTITION: &str = "23514";

const COMMIT: &str = "SELECT journal_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)";
const COMMIT_WITH_KEYS: &str = "SELECT journal_commit_with_keys($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
    $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34)";
const COMMIT_WITH_CLAIMS: &str = "SELECT journal_commit_with_claims($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)";

/// A commit that returns the position before its first event.
type Commit<'q> = QueryScalar<'q, Postgres, i64, PgArguments>;

/// Writes the batch and returns the position before its first event.
pub(super) async fn commit(connection: &mut PoolConnection<Postgres>, shard: Shard, batch: &Batch<'_>) -> CommitResult {
    let query = match batch.only_row() {
        Some(row) => single_row::query(shard, batch, row),
        None => of_rows(shard, batch),
    };
    query.fetch_one(&mut **connection).await.map_err(|error| {
        match error.as_database_error().and_then(|error| error.code()) {
            Some(code) if code == NOT_ALL_WRITTEN => CommitError::NotAllWritten,
            Some(code) if code == NO_PARTITION => CommitError::NoPartition,
            _ => CommitError::Database(error),
        }
    })
}

fn of_rows<'q>(shard: Shard, batch: &'q Batch<'q>) -> Commit<'q> {
    let query: Commit<'q> = match (&*batch.claims, &*batch.offers) {
        ([], []) => sqlx::query_scalar(COMMIT),
        ([], _) => bind_offers(sqlx::query_scalar(COMMIT_WITH_CLAIMS), batch),
        _ => bind_claims(sqlx::query_scalar(COMMIT_WITH_KEYS), batch),
    };
    let query = query
        .bind(codec::shard_column(shard))
        .bind(batch.positions())
        .bind(batch.node())
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .bind(batch.stats.note());
    bind_callbacks(bind_reports(bind_updates(bind_inserts(query, batch), batch), batch), batch)
}

fn bind_claims<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let claims = || batch.claims.iter().map(|(_, claim)| *claim);
    query
        .bind(batch.claims.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(claims().map(|claim| claim.once.key.to_vec()).collect::<Vec<_>>())
        .bind(claims().map(|claim| claim.once.fingerprint.to_vec()).collect::<Vec<_>>())
        .bind(claims().map(|claim| claim.batch_id).collect::<Vec<_>>())
        .bind(claims().map(|claim| codec::concat_ids(&claim.calls)).collect::<Vec<_>>())
        .bind(batch.at.plus_millis(idempotency::KEPT_MS).0)
}

fn bind_offers<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let offers = || batch.offers.iter().copied();
    query
        .bind(offers().map(|offer| offer.call).collect::<Vec<_>>())
        .bind(offers().map(|offer| offer.tenant.as_str()).collect::<Vec<_>>())
        .bind(offers().map(|offer| &*offer.queue).collect::<Vec<_>>())
        .bind(offers().map(|offer| codec::indexed_name(&offer.tool)).collect::<Vec<_>>())
        .bind(offers().map(|offer| offer.priority).collect::<Vec<_>>())
        .bind(offers().map(Offer::attempt_column).collect::<Vec<_>>())
        .bind(offers().map(Offer::lease_column).collect::<Vec<_>>())
        .bind(offers().map(|offer| offer.worker.as_deref()).collect::<Vec<_>>())
}

fn bind_inserts<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let calls = || batch.inserts().map(|row| row.call);
    let tenants = match batch.tenant() {
        Some(tenant) => array(calls().take(1).map(|_| tenant.as_str())),
        None => array(calls().map(|call| call.tenant.as_str())),
    };
    query
        .bind(array(calls().map(|call| call.id)))
        .bind(tenants)
        .bind(optional_array(calls().map(|call| call.session.as_deref())))
        .bind(optional_array(calls().map(|call| call.batch_id)))
        .bind(array(calls().map(|call| codec::indexed_name(&call.name))))
        .bind(array(batch.inserts().flat_map(insert_numbers)))
        .bind(array(calls().map(|call| call.arguments_text.get())))
        .bind(array(batch.inserts().map(|row| row.record)))
}

fn bind_updates<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let rows: Vec<&RowImage<'_>> = batch.updates().collect();
    query
        .bind(array(rows.iter().map(|row| row.call.id)))
        .bind(array(rows.iter().flat_map(|row| update_numbers(row))))
        .bind(optional_array(rows.iter().map(|row| row.arguments)))
        .bind(array(rows.iter().map(|row| row.record)))
}

fn bind_reports<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let reported = || batch.reported.iter();
    query
        .bind(array(reported().map(|row| row.call)))
        .bind(array(reported().map(|row| row.reported.seq as i32)))
        .bind(array(reported().map(|row| row.offset)))
        .bind(array(reported().map(|row| row.reported.kind.as_str())))
        .bind(array(reported().map(|row| row.reported.data.as_str())))
}

fn bind_callbacks<'q>(query: Commit<'q>, batch: &'q Batch<'q>) -> Commit<'q> {
    let callbacks = || batch.callbacks.iter();
    query
        .bind(array(callbacks().map(|row| row.call_id)))
        .bind(array(callbacks().map(|row| &*row.url)))
        .bind(array(callbacks().map(CallbackRow::host)))
        .bind(array(callbacks().map(|row| row.event_id)))
}

/// Returns NULL for an array without elements. Each array costs the server more than a NULL.
fn array<T>(values: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let values: Vec<T> = values.collect();
    (!values.is_empty()).then_some(values)
}

/// Returns NULL for an array without values. The server reads missing elements as NULL.
fn optional_array<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<Option<T>>> {
    let values: Vec<Option<T>> = values.collect();
    values.iter().any(Option::is_some).then_some(values)
}

/// Returns the numbers of a new row. They share one array, because each unnested array costs the server as much as a
/// table column. -1 is NULL.
fn insert_numbers(row: &RowImage<'_>) -> [i64; 10] {
    let [status, attempt, seq, started, settled, code, slow, late] = update_numbers(row);
    let accepted = row.accepted.map_or(-1, i64::from);
    [status, attempt, seq, row.call.created_at.0, accepted, started, settled, code, slow, late]
}

/// Returns the numbers of an updated row.
fn update_numbers(row: &RowImage<'_>) -> [i64; 8] {
    let status = i64::from(codec::status_number(row.call.status));
    let (attempt, seq) = (i64::from(row.call.attempts), i64::from(row.call.last_seq));
    let (started, settled) = (row.started.map_or(-1, i64::from), row.settled.map_or(-1, i64::from));
    let (code, slow) = (codec::code_of(row.call).map_or(-1, i64::from), codec::slow_of(row.call).map_or(-1, i64::from));
    let late = partitions::late_end(row.call.id, row.call.ended_at).unwrap_or(-1);
    [status, attempt, seq, started, settled, code, slow, late]
}

/// Looks up a commit that may have succeeded after position `after`. Returns the position before its first event.
pub(super) async fn find(
    connection: &mut PoolConnection<Postgres>,
    after: i64,
    id: Uuid,
) -> Result<Option<i64>, sqlx::Error> {
    let shard = Shard::of_position(after);
    let query = sqlx::query_scalar(FIND_COMMIT).bind(codec::shard_column(shard)).bind(after).bind(id);
    let found: Option<i64> = query.fetch_optional(&mut **connection).await?;
    Ok(found.map(|first| first - 1))
}
