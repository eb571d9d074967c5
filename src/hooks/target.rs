//! The target of a hook: a webhook, a Rust function or a built-in hook.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::call::HookCall;
use super::redact::Redact;
use super::response::{BeforeDecision, Rewrite};
use super::truncate::Truncate;
use crate::domain::hook::BuiltinHook;
use crate::domain::{HookDefinition, HookEvent};
use crate::executor::BoxFuture;
use crate::executor::http::check_url;
use crate::executor::signing_key::SigningKey;

/// The code that a hook runs.
#[derive(Clone)]
pub(super) enum Target {
    Webhook { url: String, key: Option<SigningKey> },
    Redact(Redact),
    Truncate(Truncate),
    Before(HookFn<BeforeDecision>),
    After(HookFn<()>),
    Persist(HookFn<Rewrite>),
}

/// An error returned by a hook: the reason of its failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

impl From<&str> for HookError {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for HookError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// The function of a hook for one event.
pub(super) type HookFn<T> = Arc<dyn Fn(HookCall) -> BoxFuture<Result<T, HookError>> + Send + Sync>;

/// Compiles the target of a declared hook.
///
/// # Errors
/// Returns JSON pointers and reasons if the definition is invalid.
pub(super) fn target(definition: &HookDefinition) -> Result<Target, Vec<(String, String)>> {
    let fault = |pointer: &str, text: &str| Err(vec![(pointer.to_owned(), text.to_owned())]);
    let key = match definition.secret.as_ref().map(|secret| SigningKey::parse(&secret.0)).transpose() {
        Ok(key) => key,
        Err(error) => return fault("/secret", &error.to_string()),
    };
    match (&definition.url, definition.builtin) {
        (Some(_), Some(_)) => fault("/builtin", "a hook must have either url or builtin, not both"),
        (None, None) => fault("/url", "a hook must have url or builtin"),
        (Some(url), None) => {
            if definition.options.is_some() {
                return fault("/options", "options are valid only for a builtin");
            }
            check_url(url).map_err(|reason| vec![("/url".to_owned(), reason)])?;
            Ok(Target::Webhook { url: url.clone(), key })
        }
        (None, Some(builtin)) => {
            if definition.event != HookEvent::ToolResultPersist {
                return fault("/event", "a builtin requires the event tool_result_persist");
            }
            if key.is_some() {
                return fault("/secret", "a builtin does not use a secret");
            }
            let options = definition.options.clone().unwrap_or_else(|| Value::Object(Map::new()));
            if !options.is_object() {
                return fault("/options", "must be an object");
            }
            let read = match builtin {
                BuiltinHook::Redact => Redact::read(&options).map(Target::Redact),
                BuiltinHook::Truncate => Truncate::read(&options).map(Target::Truncate),
            };
            read.map_err(|faults| {
                faults.into_iter().map(|(pointer, text)| (format!("/options{pointer}"), text)).collect()
            })
        }
    }
}
