//! Context: objects by name for tools that name them, from the server's settings, the session and the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::submission::Submission;
use crate::domain::ToolDefinition;

/// Objects by name; not shown by `Debug`.
#[derive(Clone, Default)]
pub struct ContextObjects(Arc<Map<String, Value>>);

impl From<BTreeMap<String, Map<String, Value>>> for ContextObjects {
    fn from(objects: BTreeMap<String, Map<String, Value>>) -> Self {
        Self(Arc::new(objects.into_iter().map(|(name, object)| (name, Value::Object(object))).collect()))
    }
}

impl std::fmt::Debug for ContextObjects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ContextObjects")
    }
}

impl ContextObjects {
    /// These with those of a request and of its session: a whole object at a time.
    #[must_use]
    pub(super) fn with(&self, submission: &Submission) -> Self {
        let session = submission.conversation.as_ref().map(|session| &session.context);
        let session = session.filter(|context| !context.is_empty());
        if session.is_none() && submission.context.is_empty() {
            return self.clone();
        }
        let mut all = (*self.0).clone();
        let own = session.into_iter().chain([&submission.context]);
        all.extend(own.flatten().map(|(name, object)| (name.clone(), object.clone())));
        Self(Arc::new(all))
    }

    /// What of them a tool names; what is missing is told when it is to run.
    pub(super) fn of(&self, definition: &ToolDefinition) -> Arc<Map<String, Value>> {
        let named = definition.context.iter().filter_map(|name| Some((name.clone(), self.0.get(name)?.clone())));
        Arc::new(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{Session, Time};

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_request_comes_before_the_session_before_the_server_and_a_tool_gets_only_what_it_names() {
        let server: BTreeMap<_, _> =
            ["a", "b", "c", "d"].map(|name| (name.to_owned(), object(json!({"from": "server", "x": 1})))).into();
        let mut session = Session::new("s".into(), Time(0));
        session.context = object(json!({"b": {"from": "session"}, "c": {"from": "session", "y": 1}}));
        let submission = Submission {
            conversation: Some(Arc::new(session)),
            context: object(json!({"c": {"from": "request"}})),
            ..Submission::default()
        };
        let objects = ContextObjects::from(server).with(&submission);
        let tool = json!({"name": "t", "input_schema": {"type": "object"}, "executor": {"type": "external"},
            "context": ["a", "b", "c", "none"]});
        let named = objects.of(&serde_json::from_value(tool).unwrap());
        let expected = json!({"a": {"from": "server", "x": 1}, "b": {"from": "session"}, "c": {"from": "request"}});
        assert_eq!(Value::Object((*named).clone()), expected);
        assert!(!format!("{objects:?}").contains("server"));
    }
}
