//! Sessions: the shared state of the calls of a conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{LimitsSpec, Time};

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

/// A stored session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The caller's id, or a generated id.
    pub id: Arc<str>,
    /// The state.
    pub state: SessionState,
    /// The session whose call created this session for a task.
    pub parent: Option<String>,
    /// The call of the parent that waits for the end of this session.
    pub parent_call: Option<Uuid>,
    /// Context objects for tools that list them. They are never shown.
    pub context: Map<String, Value>,
    /// The group switches that differ from the tenant's.
    pub groups: BTreeMap<String, bool>,
    /// Limits of its calls. The limits of a call and a tool take precedence.
    pub limits: LimitsSpec,
    /// The tools of the session; `None` for all tools. System tools are active only if they are listed.
    pub tools: Option<Vec<String>>,
    /// A URL that receives every ended call.
    pub callback_url: Option<Arc<str>>,
    /// The task, if a call of the parent created the session.
    pub task: Option<Task>,
    /// The result of the task.
    pub completion: Option<Completion>,
    /// The position of the newest event at its creation. Calls of this session have later positions; calls of a deleted
    /// session with the same id have earlier ones.
    pub since_pos: i64,
    /// The time of creation.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
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
        Self {
            id,
            state: SessionState::Active,
            parent: None,
            parent_call: None,
            context: Map::new(),
            groups: BTreeMap::new(),
            limits: LimitsSpec::default(),
            tools: None,
            callback_url: None,
            task: None,
            completion: None,
            since_pos: 0,
            created_at: now,
            updated_at: now,
        }
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
