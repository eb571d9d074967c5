//! Entries: compiled tools with definition, validators and policy stack.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::fetched::FetchedDefinition;
use crate::domain::tool::{DefinitionError, UpstreamMetadata};
use crate::domain::{Paused, Session, Source, Tenant, Time, ToolDefinition};
use crate::executor::{Available, Pool, SystemTool, ToolRole};
use crate::policy::Stack;
use crate::schema::Compiled;
use crate::schema::lower::{self, Lowered, Target, Unlowerable};
use crate::tool::Validate;

/// The source, the revision and the times of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// The source of the definition.
    pub source: Source,
    /// Incremented by every change.
    pub revision: i64,
    /// The time of the first declaration.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

impl Provenance {
    /// Returns the provenance of a change of `before` at this time, or of a new tool.
    pub(super) fn of_change(before: Option<&Arc<Entry>>, source: Source, at: Time) -> Self {
        let (revision, created_at) = before.map_or((1, at), |entry| (entry.made.revision + 1, entry.made.created_at));
        Self { source, revision, created_at, updated_at: at }
    }
}

/// The results of lowering one schema, by target; `Gemini` is the last one.
pub(super) type LoweredSchemas = [OnceLock<Result<Lowered, Unlowerable>>; Target::Gemini as usize + 1];

/// A compiled tool that can be called.
pub struct Entry {
    /// The definition as declared.
    pub declared: ToolDefinition,
    /// The definition with defaults filled in, the fetched document applied and hidden presets removed.
    pub definition: ToolDefinition,
    /// Source, revision and times.
    pub made: Provenance,
    /// The name, shared with calls.
    pub name: Arc<str>,
    /// The display name, shared with calls.
    pub title: Arc<str>,
    /// The validator of arguments.
    pub input: Compiled,
    /// The validator of results.
    pub output: Option<Compiled>,
    /// The tool's own check of arguments, which runs after schema validation.
    pub validate: Option<Validate>,
    /// The same check for a tool with presets: it runs after they are injected.
    pub validate_with_presets: Option<Validate>,
    /// The executor with its policy layers.
    pub stack: Stack,
    /// The pool of instances of a tool that a factory creates.
    pub instances: Option<Arc<dyn Pool>>,
    /// Decides which sessions have the tool; `None` means all.
    pub is_available: Option<Available>,
    /// The document that `definition_url` returned.
    pub fetched: FetchedDefinition,
    /// The role of a tool that operates on other tools or on its session.
    pub role: Option<ToolRole>,
    /// Whether calls are rejected because the upstream server changed the tool and the change is not accepted yet.
    pub is_quarantined: bool,
    /// The argument schema lowered for each target, computed on first use.
    pub(super) lowered: LoweredSchemas,
    pub(super) etag: OnceLock<String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entry").field("name", &self.name).field("made", &self.made).finish_non_exhaustive()
    }
}

/// A tool as returned by `GET /tools/{name}`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Tool)]
pub struct ToolView<'a> {
    #[serde(flatten)]
    definition: &'a ToolDefinition,
    /// Metadata from the upstream MCP server; only for tools of upstream servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a UpstreamMetadata>,
    /// The source of the definition.
    source: Source,
    /// Incremented by every change.
    revision: i64,
    /// Whether the tool can be called.
    active: bool,
    /// Why the tool is paused; `null` if it is not paused.
    #[schema(value_type = Option<Object>)]
    paused: Option<Paused>,
    /// Why the last response of `definition_url` is not in use; absent if there was no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_error: Option<&'a DefinitionError>,
    /// The time of the first declaration.
    created_at: Time,
    /// The time of the last change.
    updated_at: Time,
    /// Differences between the definition in the request and the stored one; absent if both are equal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
}

impl Entry {
    /// Returns the public representation of the tool. `active` states whether the caller can call it.
    #[must_use]
    pub fn view(&self, paused: Option<Paused>, active: bool) -> ToolView<'_> {
        ToolView {
            definition: &self.definition,
            upstream: self.definition.upstream.as_deref(),
            source: self.made.source,
            revision: self.made.revision,
            active,
            paused,
            definition_error: self.fetched.error.as_ref(),
            created_at: self.made.created_at,
            updated_at: self.made.updated_at,
            warnings: Vec::new(),
        }
    }

    /// Returns the tenant that registered the tool, which is the tenant of its callers; `None` for a tool of the server, which
    /// all tenants share.
    #[must_use]
    pub fn owner<'a>(&self, caller: &'a Tenant) -> Option<&'a Tenant> {
        (self.made.source == Source::Api).then_some(caller)
    }

    /// Returns `true` if the tool's own condition accepts this session. A condition that panics counts as `false`.
    #[must_use]
    pub fn is_available_to(&self, session: &Session) -> bool {
        let Some(is_available) = &self.is_available else { return true };
        catch_unwind(AssertUnwindSafe(|| is_available(session))).unwrap_or_else(|_| {
            tracing::error!(tool = %self.name, "the availability check of a tool panicked; the tool is unavailable");
            false
        })
    }

    /// Sets whether the tool is quarantined.
    #[must_use]
    pub(super) fn with_quarantine(self, is_quarantined: bool) -> Self {
        Self { is_quarantined, ..self }
    }

    /// Returns `true` if the tool is not quarantined and is in no group or in an active group.
    pub(super) fn is_switched_on(&self, is_active: impl Fn(&str) -> bool) -> bool {
        let groups = &self.definition.groups;
        !self.is_quarantined && (groups.is_empty() || groups.iter().any(|group| is_active(group)))
    }

    /// Returns the argument schema lowered for this target; it is computed once.
    ///
    /// # Errors
    /// Returns an error if the target cannot express the schema.
    pub fn lowered(&self, target: Target) -> Result<&Lowered, &Unlowerable> {
        let lowered = self.lowered[target as usize].get_or_init(|| lower::lower(&self.definition.input_schema, target));
        lowered.as_ref()
    }

    /// Makes [`Self::lowered`] fail for this target.
    #[cfg(test)]
    pub(super) fn refuse_to_lower(&self, target: Target, error: Unlowerable) {
        self.lowered[target as usize].set(Err(error)).expect("it was not lowered before");
    }

    /// Returns `true` if the work is done outside this process: the call holds no slot and continues after a restart.
    #[must_use]
    pub fn works_outside(&self) -> bool {
        self.definition.is_external() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// Returns `true` if a call that may have run can run again.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        // The session of a task has the id of its call, so creating it twice creates one session.
        self.definition.is_repeatable() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// Returns a strong entity tag (RFC 9110, section 8.8.3), which is the same on every node and after a restart.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| self.tag(None))
    }

    /// Returns the entity tag of the current representation, which differs if the tool is paused or inactive.
    #[must_use]
    pub fn etag_now(&self, paused: Option<Paused>, active: bool) -> Cow<'_, str> {
        let tag: Cow<'_, str> = if paused.is_some() { self.tag(paused).into() } else { self.etag().into() };
        if active { tag } else { etag_of(format!("inactive {tag}").as_bytes()).into() }
    }

    fn tag(&self, paused: Option<Paused>) -> String {
        etag_of(&serde_json::to_vec(&self.view(paused, true)).unwrap_or_default())
    }
}

/// Returns a strong entity tag for these bytes.
#[must_use]
pub fn etag_of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}
