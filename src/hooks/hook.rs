//! One hook, ready to be asked, and whom it is about.

use std::fmt;
use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use serde::Serialize;

use super::counts::Counts;
use super::target::{Target, target};
use crate::domain::hook::LONGEST_TIMEOUT_MS;
use crate::domain::{HookDefinition, HookEvent, Time, glob};

/// Most globs, and most groups, of one hook.
const MOST_MATCHES: usize = 256;

/// Where a hook was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookSource {
    /// Over HTTP.
    Api,
    /// In the settings.
    Config,
    /// In the program.
    Rust,
}

/// A registered hook.
pub struct Hook {
    id: Arc<str>,
    definition: HookDefinition,
    pub(super) target: Target,
    /// Nothing: any tool.
    globs: Option<GlobSet>,
    source: HookSource,
    created_at: Time,
    /// How often it was asked, by this node.
    pub(super) counts: Counts,
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hook").field("id", &self.id).field("event", &self.event()).finish_non_exhaustive()
    }
}

/// A hook as it is shown. Its secret never is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Hook)]
pub struct HookView<'a> {
    /// Its id.
    id: &'a str,
    #[serde(flatten)]
    definition: &'a HookDefinition,
    /// Whether it has a signing secret of its own.
    has_secret: bool,
    /// Where it was registered.
    source: HookSource,
    /// When it was registered; of one in the settings or the program, when the service started.
    created_at: Time,
}

impl Hook {
    /// A webhook or a built-in hook.
    ///
    /// # Errors
    /// Everything that is wrong with it: JSON pointers and sentences.
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
        if matches.tools.len() > MOST_MATCHES || matches.groups.len() > MOST_MATCHES {
            faults.push(("/match".to_owned(), format!("has at most {MOST_MATCHES} globs and {MOST_MATCHES} groups")));
        }
        let globs = globs(&matches.tools).map_err(|mut more| faults.append(&mut more)).unwrap_or_default();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { id, definition, target, globs, source, created_at, counts: Counts::default() })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How often this node has asked it since it knows of it, and what became of that.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// When it is asked.
    #[must_use]
    pub fn event(&self) -> HookEvent {
        self.definition.event
    }

    /// As it was declared.
    #[must_use]
    pub fn definition(&self) -> &HookDefinition {
        &self.definition
    }

    /// Whether it is one that the service brings along: it never fails, and takes no time.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        self.definition.builtin.is_some()
    }

    /// Where it was registered.
    #[must_use]
    pub fn source(&self) -> HookSource {
        self.source
    }

    /// Whether it is asked about calls of this tool.
    #[must_use]
    pub fn matches(&self, tool: &str, groups: &[String]) -> bool {
        let wanted = &self.definition.matches.groups;
        self.globs.as_ref().is_none_or(|globs| globs.is_match(tool))
            && (wanted.is_empty() || wanted.iter().any(|group| groups.contains(group)))
    }

    /// As it is shown.
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
