//! Between a call and the columns of its row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};
use uuid::Uuid;

use super::StoreError;
use crate::domain::call::{CacheControl, Coercion};
use crate::domain::tool::RetryOverride;
use crate::domain::{Agent, AllowList, Call, Limits, Phase, Progress, Status, Tenant, Time, json};

mod outcome;

use outcome::{OutcomeIn, OutcomeOut};

/// Longest name in the indexed column; no tool has a longer one.
const INDEXED_NAME: usize = 128;

/// `status` in its column. Terminal ones are the greatest, which the journal's guard relies on.
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

/// The name as its column takes it: cut, and without U+0000, which Postgres refuses.
pub(super) fn indexed_name(name: &str) -> std::borrow::Cow<'_, str> {
    if name.len() <= INDEXED_NAME && !name.contains('\0') {
        return name.into();
    }
    name.chars().take(INDEXED_NAME).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect::<String>().into()
}

/// Ids as one value, 16 bytes each.
pub(super) fn ids_in_a_row(ids: &[Uuid]) -> Vec<u8> {
    ids.iter().flat_map(|id| *id.as_bytes()).collect()
}

/// The ids of such a value.
pub(super) fn ids_of(bytes: &[u8]) -> Vec<Uuid> {
    bytes.chunks_exact(16).filter_map(|bytes| Uuid::from_slice(bytes).ok()).collect()
}

/// The columns that a call is read from.
pub(super) const COLUMNS: &str = "id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, \
     accepted_pos, started_pos, settled_pos, arguments, record";

/// A call's row as it is read.
#[derive(Debug)]
pub(super) struct CallRow {
    pub id: Uuid,
    tenant: String,
    session: Option<String>,
    batch_id: Option<Uuid>,
    tool: String,
    status: i16,
    attempt: i32,
    seq: i32,
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

/// What has no column, as JSON; what is empty or follows from the rest is left out.
#[derive(Serialize)]
struct RecordOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    /// Absent: the same as the arguments. Null: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<Option<&'a Value>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    coerced: &'a [Coercion],
    #[serde(skip_serializing_if = "Option::is_none")]
    tip: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    params: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a Limits>,
    #[serde(skip_serializing_if = "is_default")]
    retry: RetryOverride,
    #[serde(skip_serializing_if = "is_default")]
    priority: i32,
    #[serde(skip_serializing_if = "is_default")]
    cached: bool,
    #[serde(skip_serializing_if = "is_default")]
    cache_control: CacheControl,
    #[serde(skip_serializing_if = "Map::is_empty")]
    context: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a Agent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<&'a str>,
    /// Absent: it follows from the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "is_default")]
    index: u32,
    /// What came piece by piece: the column was written before.
    #[serde(skip_serializing_if = "Option::is_none")]
    streamed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeOut<'a>>,
}

#[derive(Deserialize)]
struct RecordIn {
    call_id: Option<String>,
    name: Option<String>,
    title: Option<String>,
    #[serde(default, deserialize_with = "present")]
    effective: Option<Option<Value>>,
    #[serde(default)]
    coerced: Vec<Coercion>,
    tip: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
    #[serde(default)]
    metadata: Map<String, Value>,
    progress: Option<Progress>,
    limits: Option<Limits>,
    #[serde(default)]
    retry: RetryOverride,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    cached: bool,
    #[serde(default)]
    cache_control: CacheControl,
    #[serde(default)]
    context: Map<String, Value>,
    #[serde(default)]
    allowed: Vec<String>,
    agent: Option<Agent>,
    callback_url: Option<String>,
    phase: Option<Phase>,
    #[serde(default)]
    index: u32,
    #[serde(default, deserialize_with = "present")]
    streamed: Option<Value>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    outcome: Option<OutcomeIn>,
}

/// Tells a null from an absent member.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The `record` column of a call.
pub(super) fn encode(call: &Call) -> String {
    let record = RecordOut {
        call_id: (!is_text_of(&call.call_id, call.id)).then_some(&*call.call_id),
        // Whom a call is for whose arguments came later was known later, too.
        name: (call.streamed || indexed_name(&call.name) != call.name.as_ref()).then_some(&*call.name),
        title: (call.title != call.name).then_some(&*call.title),
        effective: match &call.effective_arguments {
            Some(effective) if Arc::ptr_eq(effective, &call.arguments) => None,
            effective => Some(effective.as_deref()),
        },
        coerced: &call.coerced,
        tip: call.tip.as_deref(),
        params: &call.params,
        metadata: &call.metadata,
        progress: call.progress.as_ref(),
        limits: call.limits.as_ref(),
        retry: call.retry,
        priority: call.priority,
        cached: call.cached,
        cache_control: call.cache_control,
        // Nobody needs it any more once the call has ended.
        context: if call.status.is_terminal() { nothing() } else { &call.context },
        allowed: match &call.allowed {
            Some(allowed) if !call.status.is_terminal() => allowed.globs(),
            _ => &[],
        },
        agent: call.agent.as_deref(),
        callback_url: call.callback_url.as_deref(),
        phase: (call.phase != usual_phase(call.status)).then_some(call.phase),
        index: call.index,
        streamed: call.streamed.then_some(&*call.arguments_text),
        started_at: call.started_at.map(|at| at.0),
        ended_at: call.ended_at.map(|at| at.0),
        outcome: call.outcome.as_deref().map(OutcomeOut::from),
    };
    // Maps with string keys and numbers that came from JSON cannot fail to serialise.
    serde_json::to_string(&record).unwrap_or_else(|error| format!("{{\"unreadable\":\"{error}\"}}"))
}

fn nothing() -> &'static Map<String, Value> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    &NOTHING
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The phase of a call in this status that does nothing out of the ordinary.
fn usual_phase(status: Status) -> Phase {
    match status {
        Status::Wait => Phase::Queued,
        Status::Doing => Phase::Running,
        Status::Success | Status::Error => Phase::Done,
    }
}

fn is_text_of(call_id: &str, id: Uuid) -> bool {
    call_id == id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer())
}

impl CallRow {
    pub fn decode(self) -> Result<Call, StoreError> {
        let id = self.id;
        let corrupt = |error: &dyn std::fmt::Display| StoreError::Corrupt(format!("call {id}: {error}"));
        let record: RecordIn = from_str(&self.record).map_err(|error| corrupt(&error))?;
        let streamed = record.streamed.is_some();
        let arguments = Arc::new(match record.streamed {
            Some(streamed) => streamed,
            None => json::parse(self.arguments.as_bytes()).map_err(|error| corrupt(&error))?,
        });
        let status = status_from(self.status)?;
        let name: Arc<str> = record.name.unwrap_or(self.tool).into();
        let metadata = record.metadata;
        Ok(Call {
            id,
            tenant: Tenant::stored(&self.tenant),
            call_id: record.call_id.unwrap_or_else(|| id.to_string()).into(),
            title: record.title.map_or_else(|| name.clone(), Arc::from),
            name,
            session: self.session.map(Arc::from),
            batch_id: self.batch_id,
            index: record.index,
            status,
            phase: record.phase.unwrap_or(usual_phase(status)),
            effective_arguments: match record.effective {
                None => Some(arguments.clone()),
                Some(effective) => effective.map(Arc::new),
            },
            arguments_text: json::text_of(&arguments),
            arguments,
            streamed,
            coerced: record.coerced,
            tip: record.tip,
            params: record.params,
            metadata,
            progress: record.progress,
            outcome: record.outcome.map(|outcome| Arc::new(outcome.decode())),
            attempts: self.attempt.try_into().unwrap_or(0),
            limits: record.limits,
            retry: record.retry,
            priority: record.priority,
            cached: record.cached,
            cache_control: record.cache_control,
            context: Arc::new(record.context),
            allowed: AllowList::of(record.allowed).map_err(|(_, reason)| corrupt(&reason))?.map(Arc::new),
            agent: record.agent.map(Arc::new),
            callback_url: record.callback_url.map(Arc::from),
            created_at: Time(self.created_at),
            started_at: record.started_at.map(Time),
            ended_at: record.ended_at.map(Time),
            node: self.node.into(),
            last_seq: self.seq.try_into().unwrap_or(0),
        })
    }
}

/// Stored JSON may be nested deeper than a request's, by what we put around it.
fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    T::deserialize(&mut deserializer)
}

#[cfg(test)]
mod tests;
