//! Conversion between a session and the columns of its row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};
use uuid::Uuid;

use crate::domain::{LimitsSpec, Session, SessionState, Task, Time};
use crate::store::StoreError;

/// The columns from which a session is read.
pub(super) const COLUMNS: &str = "id, state, parent, parent_call, switched, completion, doc, since_pos, created_at, \
    updated_at";

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

/// The row of a session, as it is read.
#[derive(Debug)]
pub(super) struct SessionRow {
    id: String,
    state: i16,
    parent: Option<String>,
    parent_call: Option<Uuid>,
    switched: String,
    completion: Option<String>,
    doc: String,
    since_pos: i64,
    created_at: i64,
    updated_at: i64,
}

impl<'r, R: Row> FromRow<'r, R> for SessionRow
where
    usize: ColumnIndex<R>,
    Uuid: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i16: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get(0)?,
            state: row.try_get(1)?,
            parent: row.try_get(2)?,
            parent_call: row.try_get(3)?,
            switched: row.try_get(4)?,
            completion: row.try_get(5)?,
            doc: row.try_get(6)?,
            since_pos: row.try_get(7)?,
            created_at: row.try_get(8)?,
            updated_at: row.try_get(9)?,
        })
    }
}

impl SessionRow {
    pub fn decode(self) -> Result<Session, StoreError> {
        let Doc { context, limits, tools, callback_url, task } = read(&self.doc)?;
        Ok(Session {
            id: self.id.into(),
            state: state_from(self.state)?,
            parent: self.parent,
            parent_call: self.parent_call,
            context,
            groups: read(&self.switched)?,
            limits,
            tools,
            callback_url: callback_url.map(Arc::from),
            task,
            completion: self.completion.as_deref().map(read).transpose()?,
            since_pos: self.since_pos,
            created_at: Time(self.created_at),
            updated_at: Time(self.updated_at),
        })
    }
}
