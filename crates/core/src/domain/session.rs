//! Sessions: the shared state of the calls of a conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Cursor, LimitsSpec, Time};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SessionState {
    /// The session is open.
    #[default]
    Active,
    /// The task of the session has ended.
    Completed,
    /// The session was aborted.
    Aborted,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Session {
    /// The id of the session.
    #[schema(value_type = String)]
    pub id: Arc<str>,
    /// The state of the session. A new call reactivates a session that has ended.
    pub state: SessionState,
    /// The parent session.
    pub parent: Option<String>,
    /// The call of the parent that waits for the end of this session.
    pub parent_call: Option<Uuid>,
    /// The task of the session, if it was created by a call of its parent.
    pub task: Option<Task>,
    /// The completion of the task.
    pub completion: Option<Completion>,
    /// The names of the context objects. Their values are never returned.
    #[serde(serialize_with = "names")]
    #[schema(value_type = Vec<String>)]
    pub context: Map<String, Value>,
    /// Groups that are active or inactive in this session, overriding their global state.
    pub groups: BTreeMap<String, bool>,
    /// Limits of the session's calls.
    pub limits: LimitsSpec,
    /// The tools of the session; `null` if they are not restricted.
    pub tools: Option<Vec<String>>,
    /// Receives each call that has ended.
    #[schema(value_type = Option<String>)]
    pub callback_url: Option<Arc<str>>,
    /// The time of creation.
    pub created_at: Time,
    /// The time of the last change or recorded use.
    pub updated_at: Time,
    /// The newest events at its creation. Calls of this session have later positions; calls of a deleted session with
    /// the same id have earlier ones.
    #[serde(skip)]
    pub since: Cursor,
}

fn names<S: Serializer>(objects: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.keys())
}

impl SessionState {
    /// Returns the state as callers see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Completed => "COMPLETED",
            Self::Aborted => "ABORTED",
        }
    }
}

impl Session {
    /// Returns `true` if the session lists the system tool of this name.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        self.tools.as_ref().is_some_and(|tools| tools.iter().any(|name| name == tool))
    }

    /// Creates a session, for its first use. The store sets its position.
    #[must_use]
    pub fn new(id: Arc<str>, now: Time) -> Self {
        Self { id, created_at: now, updated_at: now, ..Self::default() }
    }
}

/// The task of a session that was created by a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Task {
    /// The name of the agent that performs the task.
    pub agent_name: String,
    /// The name of the task.
    pub task_name: String,
    /// The description of the task.
    pub input: String,
}

/// The result of the task of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// Whether the task was completed.
    pub success: bool,
    /// A summary of the result.
    pub summary: String,
    /// The reason why the task was not completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The agent that makes a call, as declared by the caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further data about the agent, for tools.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}
