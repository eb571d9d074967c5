//! Entries: compiled tools with definition, validators and policy stack.

use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use toolpost_core::domain::{Source, Tenant, Time, ToolDefinition};
use toolpost_core::schema::CompiledSchema;
use toolpost_core::schema::lower::{self, LoweredSchema, Target, Unlowerable};
use toolpost_core::schema::portable;
use toolpost_tool::executor::{Pool, SystemTool, ToolRole};
use toolpost_tool::policy::Stack;
use toolpost_tool::tool::Validate;

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
    pub(super) fn of_change(before: Option<Self>, source: Source, at: Time) -> Self {
        let (revision, created_at) = before.map_or((1, at), |before| (before.revision + 1, before.created_at));
        Self { source, revision, created_at, updated_at: at }
    }
}

/// Approximate memory of a compiled tool without its schemas, in bytes.
const ENTRY_BYTES: usize = 4096;

/// The results of lowering one schema, by target; `Gemini` is the last one.
pub(super) type LoweredSchemas = [OnceLock<Result<LoweredSchema, Unlowerable>>; Target::Gemini as usize + 1];

/// A compiled tool that can be called. It exists while the tool is in use; the registry keeps a
/// [`ToolRecord`](super::ToolRecord).
pub struct Entry {
    /// The definition with defaults filled in, the fetched document applied and hidden presets removed.
    pub definition: Arc<ToolDefinition>,
    /// Source, revision and times.
    pub made: Provenance,
    /// The name, shared with calls.
    pub name: Arc<str>,
    /// The display name, shared with calls.
    pub title: Arc<str>,
    /// The entity tag of a tool whose results are cached; otherwise empty.
    pub etag: Box<str>,
    /// The validator of arguments.
    pub input: Arc<CompiledSchema>,
    /// The validator of results.
    pub output: Option<Arc<CompiledSchema>>,
    /// The tool's own check of arguments, which runs after schema validation.
    pub validate: Option<Validate>,
    /// The same check for a tool with presets: it runs after they are injected.
    pub validate_with_presets: Option<Validate>,
    /// The executor with its policy layers.
    pub stack: Stack,
    /// The pool of instances of a tool that a factory creates.
    pub instances: Option<Arc<dyn Pool>>,
    /// The role of a tool that operates on other tools or on its session.
    pub role: Option<ToolRole>,
    /// The argument schema lowered for each target, computed on first use.
    pub(super) lowered: LoweredSchemas,
    /// Whether lists over MCP show properties under other names, computed on first use.
    pub(super) is_renamed: OnceLock<bool>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entry").field("name", &self.name).field("made", &self.made).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns the tenant that registered the tool, which is the tenant of its callers; `None` for a tool of the server, which
    /// all tenants share.
    #[must_use]
    pub fn owner<'a>(&self, caller: &'a Tenant) -> Option<&'a Tenant> {
        (self.made.source == Source::Api).then_some(caller)
    }

    /// Returns the argument schema lowered for this target; it is computed once.
    ///
    /// # Errors
    /// Returns an error if the target cannot express the schema.
    pub fn lowered(&self, target: Target) -> Result<&LoweredSchema, &Unlowerable> {
        let lowered = self.lowered[target as usize].get_or_init(|| lower::lower(&self.definition.input_schema, target));
        lowered.as_ref()
    }

    /// Returns `true` if lists over MCP may show properties under the names that Anthropic accepts.
    #[must_use]
    pub fn is_renamed_over_mcp(&self) -> bool {
        *self.is_renamed.get_or_init(|| portable::has_refused_names(&self.definition.input_schema))
    }

    /// Makes [`Self::lowered`] fail for this target.
    #[cfg(test)]
    pub fn refuse_to_lower(&self, target: Target, error: Unlowerable) {
        self.lowered[target as usize].set(Err(error)).expect("it was not lowered before");
    }

    /// Returns the approximate memory of the compiled tool, in bytes.
    pub(super) fn size(&self) -> usize {
        ENTRY_BYTES + self.input.size() + self.output.as_ref().map_or(0, |output| output.size())
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
}

/// Returns a strong entity tag for these bytes.
#[must_use]
pub fn etag_of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}
