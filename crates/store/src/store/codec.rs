//! Conversion between a call and the columns of its row.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};
use uuid::Uuid;

use super::StoreError;
use toolpost_core::domain::call::{CallRecord, Counted, JsonCache, Stopwatch};
use toolpost_core::domain::{AllowList, Call, JsonText, Shard, Status, Tenant, Time, json};

mod facets;
mod members;
mod outcome;
mod record;

pub(super) use facets::{MAX_CODE, MAX_DURATION_CLASS, code_number, code_of, duration_class, slow_of};
pub(super) use record::encode;

use record::{RecordIn, default_phase};

/// Maximum length of a name in the indexed column. Names of tools are not longer.
const INDEXED_NAME: usize = 128;

/// Returns the value of the column `status`. The fence relies on terminal statuses having the greatest values.
pub(super) fn status_number(status: Status) -> i16 {
    match status {
        Status::Wait => 0,
        Status::Doing => 1,
        Status::Success => 2,
        Status::Error => 3,
    }
}

fn status_from(number: i16) -> Result<Status, StoreError> {
    match number {
        0 => Ok(Status::Wait),
        1 => Ok(Status::Doing),
        2 => Ok(Status::Success),
        3 => Ok(Status::Error),
        other => Err(StoreError::Corrupt(format!("status {other}"))),
    }
}

/// Returns the name for the indexed column: truncated, and without U+0000, which Postgres rejects.
pub(super) fn indexed_name(name: &str) -> std::borrow::Cow<'_, str> {
    if name.len() <= INDEXED_NAME && !name.contains('\0') {
        return name.into();
    }
    name.chars().take(INDEXED_NAME).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect::<String>().into()
}

/// Reads a member that is present. A null becomes `Some`, which distinguishes it from an absent member.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Returns the value of a column `shard`.
pub(super) fn shard_column(shard: Shard) -> i16 {
    // There are fewer shards than numbers.
    i16::try_from(shard.number()).unwrap_or(i16::MAX)
}

/// Returns the value of the column `shard` of rows of a call.
pub(super) fn shard_of_call(id: Uuid) -> i16 {
    shard_column(Shard::of_call(id))
}

/// Concatenates ids into one value, 16 bytes each.
pub(super) fn concat_ids(ids: &[Uuid]) -> Vec<u8> {
    ids.iter().flat_map(|id| *id.as_bytes()).collect()
}

/// Splits such a value into its ids.
pub(super) fn split_ids(bytes: &[u8]) -> Vec<Uuid> {
    bytes.chunks_exact(16).filter_map(|bytes| Uuid::from_slice(bytes).ok()).collect()
}

/// Returns the smallest possible id of this time. Ids are UUIDv7, so all ids created at or after `time` are at least as
/// large.
pub(super) fn first_id_at(time: Time) -> Uuid {
    let millis = u128::try_from(time.0.div_euclid(1000)).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}

/// The columns from which a call is read.
pub(super) const COLUMNS: &str = "id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, \
     accepted_pos, started_pos, settled_pos, arguments, record";

/// The beginning of a query for calls, before its conditions.
pub(super) static SELECT: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM tool_calls WHERE "));

/// The row of a call, as it is read.
#[derive(Debug)]
pub(super) struct CallRow {
    pub id: Uuid,
    tenant: String,
    session: Option<String>,
    batch_id: Option<Uuid>,
    tool: String,
    status: i16,
    attempt: i32,
    pub seq: i32,
    node: String,
    created_at: i64,
    pub accepted_pos: i64,
    pub started_pos: Option<i64>,
    pub settled_pos: Option<i64>,
    arguments: String,
    record: String,
}

impl<'r, R: Row> FromRow<'r, R> for CallRow
where
    usize: ColumnIndex<R>,
    Uuid: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i16: Decode<'r, R::Database> + Type<R::Database>,
    i32: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get(0)?,
            tenant: row.try_get(1)?,
            session: row.try_get(2)?,
            batch_id: row.try_get(3)?,
            tool: row.try_get(4)?,
            status: row.try_get(5)?,
            attempt: row.try_get(6)?,
            seq: row.try_get(7)?,
            node: row.try_get(8)?,
            created_at: row.try_get(9)?,
            accepted_pos: row.try_get(10)?,
            started_pos: row.try_get(11)?,
            settled_pos: row.try_get(12)?,
            arguments: row.try_get(13)?,
            record: row.try_get(14)?,
        })
    }
}

impl CallRow {
    /// Returns the number of bytes of the arguments and the record.
    pub fn bytes(&self) -> usize {
        self.arguments.len() + self.record.len()
    }

    pub fn decode(self) -> Result<Call, StoreError> {
        let id = self.id;
        let corrupt = |error: &dyn std::fmt::Display| StoreError::Corrupt(format!("call {id}: {error}"));
        let record: RecordIn = from_str(&self.record).map_err(|error| corrupt(&error))?;
        let ((started_at, ended_at), streamed) = (record.times(Time(self.created_at)), record.streamed.is_some());
        let parsed = || json::parse(self.arguments.as_bytes()).map_err(|error| corrupt(&error));
        let arguments = Arc::new(record.streamed.map_or_else(parsed, Ok)?);
        let status = status_from(self.status)?;
        let name: Arc<str> = record.name.unwrap_or(self.tool).into();
        Ok(Call::from(CallRecord {
            id,
            tenant: Tenant::stored(&self.tenant),
            call_id: record.call_id.unwrap_or_else(|| id.to_string()).into(),
            title: record.title.map_or_else(|| name.clone(), Arc::from),
            name,
            session: self.session.map(Arc::from),
            batch_id: self.batch_id,
            index: record.index,
            status,
            phase: record.phase.unwrap_or(default_phase(status)),
            effective_arguments: record.effective.map_or_else(|| Some(arguments.clone()), |own| own.map(Arc::new)),
            arguments_text: JsonText::of(&arguments),
            arguments,
            streamed,
            vendor: record.vendor,
            is_redacted: record.redacted,
            coerced: record.coerced,
            tip: record.tip,
            params: record.params,
            metadata: record.metadata,
            progress: record.progress,
            outcome: record.outcome.map(|outcome| Arc::new(outcome.decode())),
            attempts: self.attempt.try_into().unwrap_or(0),
            limits: record.limits,
            retry: record.retry,
            priority: record.priority,
            cached: record.cached,
            cache_control: record.cache_control,
            context: Arc::new(record.context),
            caller: record.caller.map(Arc::new),
            approval: record.approval.map(Box::new),
            holds: record.holds,
            allowed: AllowList::of(record.allowed).map_err(|(_, reason)| corrupt(&reason))?.map(Arc::new),
            agent: record.agent.map(Arc::new),
            callback_url: record.callback_url.map(Arc::from),
            created_at: Time(self.created_at),
            started_at,
            ended_at,
            node: self.node.into(),
            last_seq: self.seq.try_into().unwrap_or(0),
            unrun_start: record.unrun.map(|after| Time(self.created_at.saturating_add(after))),
            has_posted_result: record.posted,
            result_digest: record.result_digest,
            stopwatch: Stopwatch::stored(record.measured),
            written: JsonCache::default(),
            counted: Counted::default(),
        }))
    }
}

/// Parses without a recursion limit: the service wraps stored JSON in further levels, beyond what a request may nest.
fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    T::deserialize(&mut deserializer)
}

#[cfg(test)]
mod tests;
