//! The cache key of a call: two calls are equal if their keys are equal.

use serde_json::{Map, Value, json};

use crate::inputs::ExecutorInputs;
use crate::registry::Entry;
use toolpost_core::domain::idempotency::{fingerprint, hash};
use toolpost_core::domain::tool::CacheScope;
use toolpost_core::domain::{Agent, Call, Time};

/// The SHA-256 hash of everything on which a result can depend. A hash hides the secrets among it.
pub type Key = [u8; 32];

/// The values on which a result can depend.
#[derive(Clone, Copy)]
struct Parts<'a> {
    tenant: &'a str,
    tool: &'a str,
    /// Changes with the definition, its revision and its source.
    etag: &'a str,
    /// The id and the creation time: a session that was deleted and created again is a different one.
    session: Option<(&'a str, Option<Time>)>,
    /// The arguments including presets.
    arguments: &'a Value,
    context: &'a Map<String, Value>,
    agent: Option<&'a Agent>,
}

/// Returns the key of a call, or `None` if results are cached by session and the call has no session. `session_since` is the
/// creation time of the session, if known.
pub fn key_of(
    call: &Call,
    session_since: Option<Time>,
    inputs: &ExecutorInputs,
    entry: &Entry,
    scope: CacheScope,
) -> Option<Key> {
    let session = match (scope, &call.session) {
        (CacheScope::Global, _) => None,
        (CacheScope::Session, Some(session)) => Some((&**session, session_since)),
        (CacheScope::Session, None) => return None,
    };
    let arguments = inputs.arguments.as_ref().or(call.effective_arguments.as_ref())?;
    let parts = Parts {
        tenant: call.tenant.as_str(),
        tool: &call.name,
        etag: &entry.etag,
        session,
        arguments,
        context: &call.context,
        agent: call.agent.as_deref(),
    };
    Some(parts.key())
}

impl Parts<'_> {
    fn key(&self) -> Key {
        let mut context: Vec<_> =
            self.context.iter().map(|(name, object)| (name.as_str(), fingerprint(object))).collect();
        context.sort_unstable();
        hash(&[
            self.tenant.as_bytes(),
            self.tool.as_bytes(),
            self.etag.as_bytes(),
            &fingerprint(&json!(self.session.map(|(id, since)| (id, since.map(|since| since.0))))),
            &fingerprint(self.arguments),
            &fingerprint(&json!(context)),
            &fingerprint(&json!(self.agent)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_everything_that_determines_the_result() {
        let (arguments, same, others) = (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), json!({"a": 1, "b": "2"}));
        let user = |name: &str| Map::from_iter([("user".to_owned(), json!({"name": name}))]);
        let (nobody, ada, bob) = (Map::new(), user("ada"), user("bob"));
        let agent = Agent { name: Some("planner".into()), ..Agent::default() };
        let plain = Parts {
            tenant: "t",
            tool: "weather",
            etag: "1",
            session: None,
            arguments: &arguments,
            context: &nobody,
            agent: None,
        };
        assert_eq!(plain.key(), Parts { arguments: &same, ..plain }.key());
        let all = [
            plain,
            Parts { tenant: "u", ..plain },
            Parts { tool: "time", ..plain },
            Parts { etag: "2", ..plain },
            Parts { session: Some(("s", None)), ..plain },
            Parts { session: Some(("s", Some(Time(1)))), ..plain },
            Parts { session: Some(("s", Some(Time(2)))), ..plain },
            Parts { arguments: &others, ..plain },
            Parts { context: &ada, ..plain },
            Parts { context: &bob, ..plain },
            Parts { agent: Some(&agent), ..plain },
        ];
        let distinct: std::collections::HashSet<Key> = all.iter().map(Parts::key).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
