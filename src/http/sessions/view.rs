//! How a session is shown. Of its context only the names are.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use crate::domain::{Completion, LimitsSpec, Session, SessionState, Task, Time};

/// A session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Session)]
pub(in crate::http) struct SessionView<'a> {
    /// Its id.
    id: &'a str,
    /// Where it stands. The next call of one that has ended makes it active again.
    state: SessionState,
    /// The session that it belongs to.
    parent: Option<&'a str>,
    /// The call of the parent that waits for its end.
    parent_call: Option<Uuid>,
    /// What it was made for, if a call of its parent made it.
    task: Option<&'a Task>,
    /// How its task has ended.
    completion: Option<&'a Completion>,
    /// The names of its context objects; their values are shown to nobody.
    context: Vec<&'a str>,
    /// Groups that are on or off in this session, whatever they are elsewhere.
    groups: &'a BTreeMap<String, bool>,
    /// Bounds of its calls.
    limits: &'a LimitsSpec,
    /// The tools that it names; `null`: it is not restricted.
    tools: Option<&'a [String]>,
    /// Gets each call that has ended.
    callback_url: Option<&'a str>,
    /// When it was made.
    created_at: Time,
    /// When it was last changed, or noted as used.
    updated_at: Time,
}

impl<'a> From<&'a Session> for SessionView<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            id: &session.id,
            state: session.state,
            parent: session.parent.as_deref(),
            parent_call: session.parent_call,
            task: session.task.as_ref(),
            completion: session.completion.as_ref(),
            context: session.context.keys().map(String::as_str).collect(),
            groups: &session.groups,
            limits: &session.limits,
            tools: session.tools.as_deref(),
            callback_url: session.callback_url.as_deref(),
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}
