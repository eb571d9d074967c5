//! A commit of one call and nothing else, which is typical of a service with one caller at a time. Its parameters are
//! scalars, because arrays would cost the server more than the row.

use sqlx::query_scalar;

use super::super::batch::{Batch, RowImage};
use super::Commit;
use crate::store::{codec, partitions};
use toolpost_core::domain::Shard;

const INSERT: &str = "SELECT journal_commit_insert($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
    $18, $19, $20, $21, $22, $23)";
const UPDATE: &str =
    "SELECT journal_commit_update($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Returns the commit of a row that is all that the batch writes.
pub(super) fn query<'q>(shard: Shard, batch: &'q Batch<'q>, row: &'q RowImage<'q>) -> Commit<'q> {
    let call = row.call;
    let is_new = row.accepted.is_some();
    let mut query = query_scalar(if is_new { INSERT } else { UPDATE })
        .bind(codec::shard_column(shard))
        .bind(batch.positions())
        .bind(batch.node())
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.stats.note())
        .bind(call.id);
    if is_new {
        query = query
            .bind(call.tenant.as_str())
            .bind(call.session.as_deref())
            .bind(call.batch_id)
            .bind(codec::indexed_name(&call.name));
    }
    query = query.bind(codec::status_number(call.status)).bind(call.attempts as i32).bind(call.last_seq as i32);
    if is_new {
        query = query.bind(call.created_at.0).bind(row.accepted);
    }
    query = query.bind(row.started).bind(row.settled);
    let arguments = if is_new { Some(call.arguments_text.get()) } else { row.arguments };
    query
        .bind(arguments)
        .bind(row.record)
        .bind(codec::code_of(call))
        .bind(codec::slow_of(call))
        .bind(partitions::late_end(call.id, call.ended_at))
}
