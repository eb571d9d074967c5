//! Conversion between a session and the columns of its row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::store::StoreError;
use toolpost_core::domain::{LimitsSpec, Session, SessionState, Task, Time};

/// The beginning of a query for sessions, before the tenant and further conditions.
pub(super) const SELECT: &str = "SELECT id, state, parent, parent_call, switched, completion, doc, since, \
    created_at, updated_at FROM sessions WHERE tenant = ";

pub(super) fn state_number(state: SessionState) -> i16 {
    match state {
        SessionState::Active => 0,
        SessionState::Completed => 1,
        SessionState::Aborted => 2,
    }
}

fn state_from(number: i16) -> Result<SessionState, StoreError> {
    match number {
        0 => Ok(SessionState::Active),
        1 => Ok(SessionState::Completed),
        2 => Ok(SessionState::Aborted),
        other => Err(StoreError::Corrupt(format!("unknown state {other} of a session"))),
    }
}

/// The fields of a session that have no column.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Doc {
    #[serde(skip_serializing_if = "Map::is_empty")]
    context: Map<String, Value>,
    #[serde(skip_serializing_if = "is_default")]
    limits: LimitsSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Task>,
}

impl Doc {
    pub fn of(session: &Session) -> Self {
        Self {
            context: session.context.clone(),
            limits: session.limits.clone(),
            tools: session.tools.clone(),
            callback_url: session.callback_url.as_deref().map(str::to_owned),
            task: session.task.clone(),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Serializes a value for storage.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, StoreError> {
    // The service wraps stored JSON in further levels, beyond what a request may nest.
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    T::deserialize(&mut deserializer).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// The values of the columns that [`SELECT`] reads.
type Row = (String, i16, Option<String>, Option<Uuid>, String, Option<String>, String, String, Time, Time);

pub(super) fn decode(row: Row) -> Result<Session, StoreError> {
    let (id, state, parent, parent_call, switched, completion, doc, since, created_at, updated_at) = row;
    let Doc { context, limits, tools, callback_url, task } = read(&doc)?;
    Ok(Session {
        id: id.into(),
        state: state_from(state)?,
        parent,
        parent_call,
        context,
        groups: read(&switched)?,
        limits,
        tools,
        callback_url: callback_url.map(Arc::from),
        task,
        completion: completion.as_deref().map(read).transpose()?,
        since: since.parse().map_err(|_| StoreError::Corrupt(format!("unknown cursor {since} of a session")))?,
        created_at,
        updated_at,
    })
}
