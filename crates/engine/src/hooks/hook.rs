//! One compiled hook: the calls that it matches, and the code that it runs.

use std::fmt;
use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::HookCall;
use super::counts::{Counts, HookCounts};
use super::redact::Redact;
use super::response::{BeforeDecision, Rewrite};
use super::truncate::Truncate;
use toolpost_core::domain::hook::{BuiltinHook, LONGEST_TIMEOUT_MS};
use toolpost_core::domain::{HookDefinition, HookEvent, Time, glob};
use toolpost_tool::executor::BoxFuture;
use toolpost_tool::executor::http::check_url;
use toolpost_tool::executor::signing_key::SigningKey;

/// Maximum number of globs, and of groups, of one hook.
const MAX_MATCHES: usize = 256;

/// The source of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookSource {
    /// Registered over the HTTP API.
    Api,
    /// Declared in the settings.
    Config,
    /// Registered by the program that embeds Toolpost.
    Rust,
}

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

/// A registered hook. It is serialized without its secret.
#[derive(Serialize, utoipa::ToSchema)]
pub struct Hook {
    /// The id of the hook.
    pub id: String,
    /// The definition.
    #[serde(flatten)]
    pub definition: HookDefinition,
    /// Whether the hook has its own signing secret.
    has_secret: bool,
    /// The source of the hook.
    pub source: HookSource,
    /// The time of registration. For hooks of the settings or the program, the start of the service.
    created_at: Time,
    #[serde(skip)]
    pub(super) target: Target,
    /// `None` matches every tool.
    #[serde(skip)]
    globs: Option<GlobSet>,
    /// How often this node has run the hook since its start.
    #[serde(flatten)]
    #[schema(value_type = HookCounts)]
    pub counts: Counts,
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hook").field("id", &self.id).field("event", &self.event()).finish_non_exhaustive()
    }
}

impl Hook {
    /// Creates a webhook or a built-in hook from its definition.
    ///
    /// # Errors
    /// Returns JSON pointers and reasons if the definition is invalid.
    pub fn declared(
        id: String,
        definition: HookDefinition,
        source: HookSource,
        created_at: Time,
    ) -> Result<Self, Vec<(String, String)>> {
        let target = target(&definition)?;
        Self::new(id, definition, target, source, created_at)
    }

    pub(super) fn new(
        id: String,
        definition: HookDefinition,
        target: Target,
        source: HookSource,
        created_at: Time,
    ) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        if !(1..=LONGEST_TIMEOUT_MS).contains(&definition.timeout_ms) {
            faults.push(("/timeout_ms".to_owned(), format!("must be 1 to {LONGEST_TIMEOUT_MS}")));
        }
        let matches = &definition.matches;
        if matches.tools.len() > MAX_MATCHES || matches.groups.len() > MAX_MATCHES {
            faults
                .push(("/match".to_owned(), format!("must have at most {MAX_MATCHES} globs and {MAX_MATCHES} groups")));
        }
        let globs = globs(&matches.tools).map_err(|mut more| faults.append(&mut more)).unwrap_or_default();
        if !faults.is_empty() {
            return Err(faults);
        }
        let has_secret = definition.secret.is_some();
        Ok(Self { id, definition, has_secret, source, created_at, target, globs, counts: Counts::default() })
    }

    /// Returns the event at which the hook runs.
    #[must_use]
    pub fn event(&self) -> HookEvent {
        self.definition.event
    }

    /// Returns `true` for a built-in hook, which never fails and does no I/O.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        self.definition.builtin.is_some()
    }

    /// Returns `true` if the hook matches calls of this tool.
    #[must_use]
    pub fn matches(&self, tool: &str, groups: &[String]) -> bool {
        let wanted = &self.definition.matches.groups;
        self.globs.as_ref().is_none_or(|globs| globs.is_match(tool))
            && (wanted.is_empty() || wanted.iter().any(|group| groups.contains(group)))
    }
}

fn globs(texts: &[String]) -> Result<Option<GlobSet>, Vec<(String, String)>> {
    let (mut builder, mut faults) = (GlobSetBuilder::new(), Vec::new());
    for (index, text) in texts.iter().enumerate() {
        match glob(text) {
            Ok(glob) => drop(builder.add(glob)),
            Err(fault) => faults.push((format!("/match/tools/{index}"), fault)),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let built = (!texts.is_empty()).then(|| builder.build()).transpose();
    built.map_err(|error| vec![("/match/tools".to_owned(), error.kind().to_string())])
}

/// Compiles the target of a declared hook.
///
/// # Errors
/// Returns JSON pointers and reasons if the definition is invalid.
fn target(definition: &HookDefinition) -> Result<Target, Vec<(String, String)>> {
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
