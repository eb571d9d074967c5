//! A conversation: what its calls have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{LimitsSpec, Time};

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SessionState {
    /// It goes on.
    #[default]
    Active,
    /// Its task is done.
    Completed,
    /// It was aborted.
    Aborted,
}

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The caller's id, or ours.
    pub id: Arc<str>,
    /// Where it stands.
    pub state: SessionState,
    /// The session that it was made for a task of.
    pub parent: Option<String>,
    /// The call of the parent that waits for its end.
    pub parent_call: Option<Uuid>,
    /// Objects for tools that name them; shown to nobody.
    pub context: Map<String, Value>,
    /// Groups that are switched otherwise than for everybody.
    pub groups: BTreeMap<String, bool>,
    /// Bounds of its calls; a call's and a tool's own come first.
    pub limits: LimitsSpec,
    /// The tools that it has; `None`: all. A system tool is on if it is named here.
    pub tools: Option<Vec<String>>,
    /// Is told of every result.
    pub callback_url: Option<Arc<str>>,
    /// What it was made for, if a call of its parent made it.
    pub task: Option<Task>,
    /// How its task has ended.
    pub completion: Option<Completion>,
    /// The position of the newest event when it was made: its calls come behind it, and those of a forgotten session of
    /// the same id before.
    pub since_pos: i64,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl SessionState {
    /// As callers see it.
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
    /// Whether a system tool of this name is on in it.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        self.tools.as_ref().is_some_and(|tools| tools.iter().any(|name| name == tool))
    }

    /// A session as it is made on first use. The store knows its position.
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

/// The task of a session that was made by a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Task {
    /// The agent that is to do it.
    pub agent_name: String,
    /// What it is called.
    pub task_name: String,
    /// What is to be done.
    pub input: String,
}

/// How the task of a session has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// Whether it was done.
    pub success: bool,
    /// What came of it.
    pub summary: String,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// On whose behalf a call is made, as the caller says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whatever else tools are to know of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}
