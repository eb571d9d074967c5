//! Records: tools as the registry keeps them. A record has what lists and look-ups need, and compiles its tool on use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use super::builder::{EntryBuilder, ToolFacts};
use super::check;
use super::compiled::Evict;
use super::declared::DeclaredDefinition;
use super::entry::{Entry, Provenance};
use super::fetched::FetchedDefinition;
use toolpost_core::domain::{ExecutorSpec, Failure, Session, ToolDefinition};
use toolpost_core::schema::lower::{self, LoweredSchema, Target, Unlowerable};
use toolpost_tool::executor::{Available, ToolRole};

/// Default lifetime of the response of a `definition_url`, in milliseconds.
const USUAL_TTL_MS: u64 = 60_000;

/// Maximum length of a definition that is compiled on the current thread, in bytes.
const MAX_INLINE_COMPILE: usize = 16 * 1024;

/// A registered tool. Its definition is kept once, as text. Its [`Entry`] exists while the tool is in use.
pub struct ToolRecord {
    /// The name, shared with calls.
    pub name: Arc<str>,
    /// The display name, shared with calls.
    pub title: Arc<str>,
    /// Source, revision and times.
    pub made: Provenance,
    /// The groups of the tool.
    pub groups: Box<[String]>,
    /// The role of a tool that operates on other tools or on its session.
    pub role: Option<ToolRole>,
    /// Whether calls are rejected because the upstream server changed the tool and the change is not accepted yet.
    pub is_quarantined: bool,
    /// Decides which sessions have the tool; `None` means all.
    is_available: Option<Available>,
    declared: DeclaredDefinition,
    /// The response of the definition's URL, if it has one.
    remote: Option<Box<Remote>>,
    pub(super) etag: OnceLock<Box<str>>,
    builder: Arc<EntryBuilder>,
    entry: ArcSwapOption<Entry>,
    /// Whether the entry was used since the last check of the memory.
    was_used: AtomicBool,
}

/// The URL of a definition, with its last response.
#[derive(Debug, Clone)]
struct Remote {
    url: String,
    ttl: Duration,
    fetched: FetchedDefinition,
}

/// The outline of a stored tool: everything that a record needs.
pub(super) struct Outline {
    pub name: String,
    pub title: Option<String>,
    pub groups: Vec<String>,
    pub role: Option<ToolRole>,
}

impl std::fmt::Debug for ToolRecord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ToolRecord").field("name", &self.name).field("made", &self.made).finish_non_exhaustive()
    }
}

impl ToolRecord {
    /// Keeps a checked definition.
    pub(super) fn new(
        builder: &Arc<EntryBuilder>,
        declared: DeclaredDefinition,
        facts: ToolFacts,
        made: Provenance,
    ) -> Self {
        let ToolFacts { definition, fetched, role, is_available } = facts;
        let ToolDefinition { name, title, groups, definition_url, definition_ttl_ms, .. } = definition;
        let remote = definition_url.map(|url| {
            let ttl = Duration::from_millis(definition_ttl_ms.unwrap_or(USUAL_TTL_MS));
            Box::new(Remote { url, ttl, fetched })
        });
        let outline = Outline { name, title, groups, role };
        Self { is_available, remote, ..Self::stored(builder, declared, outline, made) }
    }

    /// Keeps a stored definition that was checked before.
    pub(super) fn stored(
        builder: &Arc<EntryBuilder>,
        declared: DeclaredDefinition,
        outline: Outline,
        made: Provenance,
    ) -> Self {
        let Outline { title, groups, role, .. } = outline;
        let name = declared.name().clone();
        Self {
            title: title.filter(|title| **title != *name).map_or_else(|| name.clone(), Arc::from),
            name,
            made,
            groups: groups.into(),
            role,
            is_quarantined: false,
            is_available: None,
            declared,
            remote: None,
            etag: OnceLock::new(),
            builder: builder.clone(),
            entry: ArcSwapOption::empty(),
            was_used: AtomicBool::new(false),
        }
    }

    /// Sets whether the tool is quarantined.
    #[must_use]
    pub(super) fn with_quarantine(self, is_quarantined: bool) -> Self {
        Self { is_quarantined, ..self }
    }

    /// Returns the compiled tool. It is compiled on first use, and again if its memory was needed since.
    ///
    /// # Errors
    /// Returns a failure if the definition is invalid. The registry keeps only definitions that were checked.
    pub fn entry(self: &Arc<Self>) -> Result<Arc<Entry>, Box<Failure>> {
        if let Some(entry) = self.entry.load_full() {
            if !self.was_used.load(Relaxed) {
                self.was_used.store(true, Relaxed);
            }
            return Ok(entry);
        }
        self.compile().map_err(|reason| {
            tracing::error!(tool = %self.name, reason, "a registered tool is invalid and cannot be called");
            Failure::execution(&self.name, format!("its definition is invalid: {reason}")).into()
        })
    }

    fn compile(self: &Arc<Self>) -> Result<Arc<Entry>, String> {
        let declared = self.declared.read().map_err(|error| error.to_string())?;
        let made = self.builder.make(&declared, self.made, self.fetched()).map_err(|faults| check::summary(&faults))?;
        let etag = made.definition.cache.map(|_| self.etag().into()).unwrap_or_default();
        let made = Arc::new(Entry { name: self.name.clone(), title: self.title.clone(), etag, ..made });
        let before = self.entry.compare_and_swap(&None::<Arc<Entry>>, Some(made.clone()));
        if let Some(first) = &*before {
            // Another call has compiled the tool meanwhile, and its stack may have state already.
            return Ok(first.clone());
        }
        self.was_used.store(true, Relaxed);
        if !self.builder.has_state(&made) {
            let owner: Weak<Self> = Arc::downgrade(self);
            self.builder.memory.add(owner, made.size() + self.declared.len() * PARSED);
        }
        Ok(made)
    }

    /// Returns `true` if the tool is compiled.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.entry.load().is_some()
    }

    /// Returns `true` if the tool is not compiled and its definition is long, so that its next use blocks the thread.
    #[must_use]
    pub fn is_slow_to_compile(&self) -> bool {
        self.declared.len() > MAX_INLINE_COMPILE && !self.is_compiled()
    }

    /// Returns the definition as declared.
    ///
    /// # Errors
    /// Returns the reason if it cannot be parsed.
    pub fn declared(&self) -> Result<ToolDefinition, String> {
        self.declared.read().map_err(|error| error.to_string())
    }

    /// Returns the text of the definition as declared.
    pub(super) fn text(&self) -> &DeclaredDefinition {
        &self.declared
    }

    /// Returns the public definition: with defaults and the fetched document, without hidden presets. It is parsed
    /// for this caller unless the tool is compiled.
    #[must_use]
    pub fn definition(&self) -> Arc<ToolDefinition> {
        if let Some(entry) = &*self.entry.load() {
            return entry.definition.clone();
        }
        let declared = self.declared.read().unwrap_or_else(|error| {
            tracing::error!(tool = %self.name, %error, "a registered definition cannot be parsed");
            ToolDefinition::plain(self.name.to_string(), serde_json::Value::Null, ExecutorSpec::External {})
        });
        Arc::new(self.builder.public(&declared, &self.fetched()))
    }

    /// Returns the argument schema of the tool's definition lowered for this target. The result is kept only with a
    /// compiled tool.
    pub(super) fn lowered(&self, target: Target, definition: &ToolDefinition) -> Result<LoweredSchema, Unlowerable> {
        let entry = self.entry.load();
        let known = entry.as_ref().and_then(|entry| entry.lowered[target as usize].get());
        known.cloned().unwrap_or_else(|| lower::lower(&definition.input_schema, target))
    }

    /// Returns the URL of the definition and the lifetime of its response.
    pub(super) fn url(&self) -> Option<(&str, Duration)> {
        self.remote.as_ref().map(|remote| (remote.url.as_str(), remote.ttl))
    }

    /// Returns the document that `definition_url` returned.
    #[must_use]
    pub fn fetched(&self) -> FetchedDefinition {
        self.remote.as_ref().map(|remote| remote.fetched.clone()).unwrap_or_default()
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

    /// Returns `true` if the tool is not quarantined and is in no group or in an active group.
    pub(super) fn is_switched_on(&self, is_active: impl Fn(&str) -> bool) -> bool {
        !self.is_quarantined && (self.groups.is_empty() || self.groups.iter().any(|group| is_active(group)))
    }
}

/// Approximate size of a parsed definition, relative to its text.
const PARSED: usize = 10;

impl Evict for ToolRecord {
    fn was_used(&self) -> bool {
        self.was_used.swap(false, Relaxed)
    }

    fn evict(&self) {
        self.entry.store(None);
    }
}
