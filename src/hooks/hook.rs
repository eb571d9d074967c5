//! One compiled hook, and the calls that it matches.

use std::fmt;
use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use serde::Serialize;

use super::counts::Counts;
use super::target::{Target, target};
use crate::domain::hook::LONGEST_TIMEOUT_MS;
use crate::domain::{HookDefinition, HookEvent, Time, glob};

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

/// A registered hook.
pub struct Hook {
    id: Arc<str>,
    definition: HookDefinition,
    pub(super) target: Target,
    /// `None` matches every tool.
    globs: Option<GlobSet>,
    source: HookSource,
    created_at: Time,
    /// The counters of this hook on this node.
    pub(super) counts: Counts,
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hook").field("id", &self.id).field("event", &self.event()).finish_non_exhaustive()
    }
}

/// A hook without its secret.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Hook)]
pub struct HookView<'a> {
    /// The id of the hook.
    id: &'a str,
    #[serde(flatten)]
    definition: &'a HookDefinition,
    /// Whether the hook has its own signing secret.
    has_secret: bool,
    /// The source of the hook.
    source: HookSource,
    /// The time of registration. For hooks of the settings or the program, the start of the service.
    created_at: Time,
}

impl Hook {
    /// Creates a webhook or a built-in hook from its definition.
    ///
    /// # Errors
    /// Returns JSON pointers and reasons if the definition is invalid.
    pub(crate) fn declared(
        id: Arc<str>,
        definition: HookDefinition,
        source: HookSource,
        created_at: Time,
    ) -> Result<Self, Vec<(String, String)>> {
        let target = target(&definition)?;
        Self::new(id, definition, target, source, created_at)
    }

    pub(super) fn new(
        id: Arc<str>,
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
        Ok(Self { id, definition, target, globs, source, created_at, counts: Counts::default() })
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the counters of this hook on this node.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the event at which the hook runs.
    #[must_use]
    pub fn event(&self) -> HookEvent {
        self.definition.event
    }

    /// Returns the definition.
    #[must_use]
    pub fn definition(&self) -> &HookDefinition {
        &self.definition
    }

    /// Returns `true` for a built-in hook, which never fails and does no I/O.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        self.definition.builtin.is_some()
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> HookSource {
        self.source
    }

    /// Returns `true` if the hook matches calls of this tool.
    #[must_use]
    pub fn matches(&self, tool: &str, groups: &[String]) -> bool {
        let wanted = &self.definition.matches.groups;
        self.globs.as_ref().is_none_or(|globs| globs.is_match(tool))
            && (wanted.is_empty() || wanted.iter().any(|group| groups.contains(group)))
    }

    /// Returns the hook without its secret.
    #[must_use]
    pub fn view(&self) -> HookView<'_> {
        HookView {
            id: &self.id,
            definition: &self.definition,
            has_secret: self.definition.secret.is_some(),
            source: self.source,
            created_at: self.created_at,
        }
    }
}

fn globs(texts: &[String]) -> Result<Option<GlobSet>, Vec<(String, String)>> {
    if texts.is_empty() {
        return Ok(None);
    }
    let (mut builder, mut faults) = (GlobSetBuilder::new(), Vec::new());
    for (place, text) in texts.iter().enumerate() {
        match glob(text) {
            Ok(glob) => drop(builder.add(glob)),
            Err(fault) => faults.push((format!("/match/tools/{place}"), fault)),
        }
    }
    if faults.is_empty() {
        let built = builder.build().map_err(|error| vec![("/match/tools".to_owned(), error.kind().to_string())])?;
        return Ok(Some(built));
    }
    Err(faults)
}
