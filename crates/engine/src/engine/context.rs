//! Context objects of the settings, the session and the request, for tools that list their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::submission::Submission;
use toolpost_core::domain::ToolDefinition;

/// Context objects by name. `Debug` does not print them.
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
    /// Adds the objects of a session and a request. An object replaces another of the same name as a unit.
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

    /// Returns the objects that a tool lists. A missing object is reported when the call is prepared.
    pub(super) fn of(&self, definition: &ToolDefinition) -> Arc<Map<String, Value>> {
        let named = definition.context.iter().filter_map(|name| Some((name.clone(), self.0.get(name)?.clone())));
        Arc::new(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolpost_core::domain::{Session, Time};

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn request_overrides_session_and_server_and_tools_get_listed_objects_only() {
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
