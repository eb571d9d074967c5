//! What is behind a hook: a webhook, a function of the program, or what the service brings along.

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

/// What is behind a hook.
#[derive(Clone)]
pub(super) enum Target {
    Webhook { url: String, key: Option<SigningKey> },
    Redact(Redact),
    Truncate(Truncate),
    Before(HookFn<BeforeDecision>),
    After(HookFn<()>),
    Persist(HookFn<Rewrite>),
}

/// Why a hook failed.
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

/// Asks a hook of one kind.
pub(super) type HookFn<T> = Arc<dyn Fn(HookCall) -> BoxFuture<Result<T, HookError>> + Send + Sync>;

/// Reads what is behind a declared hook.
///
/// # Errors
/// Everything that is wrong with it: JSON pointers and sentences.
pub(super) fn target(definition: &HookDefinition) -> Result<Target, Vec<(String, String)>> {
    let fault = |pointer: &str, text: &str| Err(vec![(pointer.to_owned(), text.to_owned())]);
    let key = match definition.secret.as_ref().map(|secret| SigningKey::parse(&secret.0)).transpose() {
        Ok(key) => key,
        Err(error) => return fault("/secret", &error.to_string()),
    };
    match (&definition.url, definition.builtin) {
        (Some(_), Some(_)) => fault("/builtin", "a hook has an url or is a builtin, not both"),
        (None, None) => fault("/url", "a hook needs an url, or a builtin"),
        (Some(url), None) => {
            if definition.options.is_some() {
                return fault("/options", "only a builtin has options");
            }
            check_url(url).map_err(|reason| vec![("/url".to_owned(), reason)])?;
            Ok(Target::Webhook { url: url.clone(), key })
        }
        (None, Some(builtin)) => {
            if definition.event != HookEvent::ToolResultPersist {
                return fault("/event", "a builtin is asked at tool_result_persist");
            }
            if key.is_some() {
                return fault("/secret", "a builtin signs nothing");
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
