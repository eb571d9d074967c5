//! The tools that there are: layers by source, compiled once, read without a lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::{Clock, Group, Groups, Presets, Source, Time, ToolDefinition};
use crate::executor::Instances;
use crate::store::presets::StoredPreset;
use crate::store::tools::StoredTool;
use crate::store::{Store, StoreError};
use crate::tool::BuiltinTool;

pub mod check;
pub mod definitions;
pub mod discovery;
mod dressed;
pub mod dynamic;
pub mod entry;
pub mod files;
mod lowered;
pub mod of_session;
pub mod presets;
pub mod refresh;
mod search;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod upstream;
pub mod view;
mod words;

pub use check::Fault;
pub use entry::Entry;
pub use snapshot::Snapshot;
pub use view::{Found, View};

use discovery::Shown;
use dressed::Wardrobe;
use entry::{Made, Workshop};

/// When built-in tools were declared: they come with the program, so that every node and every start shows the same.
const BUILT_IN_SINCE: Time = Time(0);

/// How often what is stored is read anew at most, if it changes meanwhile.
const MOST_READS: u32 = 8;

/// One layer: its tools by name.
type Layer = BTreeMap<String, Arc<Entry>>;

/// All tools of all sources. What a caller sees is a [`Snapshot`]; a call keeps the entry that it started with.
pub struct Registry {
    workshop: Workshop,
    clock: Clock,
    layers: Mutex<Layers>,
    shown: Shown,
}

#[derive(Default)]
struct Layers {
    builtin: Layer,
    mcp: Layer,
    file: Layer,
    api: Layer,
    /// Presets that were written over the API.
    wardrobe: Wardrobe,
    /// The stored groups; others are there because a definition names them.
    groups: Groups,
    /// The version of the stored tools and groups that is shown.
    api_version: i64,
}

impl Layers {
    /// Every definition, hidden ones included.
    fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.builtin.values().chain(self.mcp.values()).chain(self.file.values()).chain(self.api.values())
    }

    /// The stored groups, and those that a definition names.
    fn all_groups(&self) -> Groups {
        let mut groups = self.groups.clone();
        for name in self.all().flat_map(|entry| &entry.definition.groups) {
            if !groups.contains_key(name) {
                groups.insert(name.clone(), Arc::new(Group::named(name)));
            }
        }
        groups
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").field("tools", &self.shown.load().list().len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry with the built-in tools, which is looked at through `shown`.
    ///
    /// # Errors
    /// A built-in whose own definition is refused.
    pub fn new(workshop: Workshop, clock: Clock, shown: Shown) -> Result<Self, (String, Vec<Fault>)> {
        let mut layers = Layers { api_version: -1, ..Layers::default() };
        for tool in workshop.builtins() {
            let made =
                Made { source: Source::Builtin, revision: 1, created_at: BUILT_IN_SINCE, updated_at: BUILT_IN_SINCE };
            let name = tool.definition.name.clone();
            let entry = workshop.make(tool.definition.clone(), made).map_err(|faults| (name.clone(), faults))?;
            layers.builtin.insert(name, Arc::new(entry));
        }
        let registry = Self { workshop, clock, layers: Mutex::new(layers), shown };
        registry.change(|_| ());
        Ok(registry)
    }

    /// The instances of tools that are made by factories.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        self.workshop.instances()
    }

    /// What there is now.
    #[must_use]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.shown.load()
    }

    /// Compiles a definition without registering it, as one that is declared on the server.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn try_definition(&self, definition: ToolDefinition) -> Result<ToolDefinition, Vec<Fault>> {
        self.workshop.make(definition, self.trial(Source::File)).map(|entry| entry.definition)
    }

    /// How an entry is made that is compiled to see whether it could be, and never shown.
    fn trial(&self, source: Source) -> Made {
        let now = self.clock.now();
        Made { source, revision: 0, created_at: now, updated_at: now }
    }

    /// A preset without a value keeps the one that the tool's declaration has: no answer shows it, so a definition that was
    /// read, changed and put cannot bring it along.
    pub fn keep_presets(&self, definition: &mut ToolDefinition) {
        if definition.presets.is_empty() {
            return;
        }
        let layers = self.layers();
        let found = [&layers.api, &layers.file, &layers.mcp, &layers.builtin]
            .into_iter()
            .find_map(|layer| layer.get(&definition.name));
        let Some(entry) = found.cloned() else { return };
        drop(layers);
        presets::keep(&mut definition.presets, &entry.declared.presets);
    }

    /// The version of the stored tools that is shown.
    #[must_use]
    pub fn api_version(&self) -> i64 {
        self.layers().api_version
    }

    /// The tools of this group that come with the program or stand in files, hidden ones included.
    #[must_use]
    pub fn declared_in_group(&self, group: &str) -> Vec<Arc<str>> {
        let layers = self.layers();
        let declared = layers.builtin.values().chain(layers.file.values());
        let within = declared.filter(|entry| entry.definition.groups.iter().any(|name| name == group));
        within.map(|entry| entry.name.clone()).collect()
    }

    /// The registered tool of this name, even where another hides it; nothing hides one from the API.
    #[must_use]
    pub fn api_entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.layers().api.get(name).cloned()
    }

    /// Reads the stored tools and groups and shows them.
    ///
    /// # Errors
    /// If the database fails; then nothing changes.
    pub async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        for read in 1..=MOST_READS {
            let (stored, version) = store.tools().await?;
            let (groups, presets) = (store.groups().await?, store.presets().await?);
            // Tools of one moment with the groups of another could show a tool that was never to be called.
            if read == MOST_READS || store.tools_version().await? == version {
                self.show_stored(stored, presets, groups, version);
                break;
            }
        }
        Ok(())
    }

    /// Shows the stored tools and groups. A tool that cannot be compiled any more is left out and told in the log. An older version
    /// than the one shown changes nothing.
    fn show_stored(&self, tools: Vec<StoredTool>, presets: Vec<StoredPreset>, groups: Vec<Group>, version: i64) {
        let mut fresh = Layer::new();
        for stored in tools {
            let known = self
                .api_entry(&stored.name)
                .filter(|entry| (entry.made.revision, entry.made.updated_at) == (stored.revision, stored.updated_at));
            let entry = match known {
                Some(entry) => entry,
                None => match self.make_stored(&stored) {
                    Ok(entry) => Arc::new(entry),
                    Err(reason) => {
                        tracing::error!(tool = stored.name, reason, "a registered tool is left out");
                        continue;
                    }
                },
            };
            fresh.insert(stored.name, entry);
        }
        self.change(|layers| {
            if version >= layers.api_version {
                layers.api = fresh;
                layers.groups = groups.into_iter().map(|group| (group.name.clone(), Arc::new(group))).collect();
                layers.wardrobe.fill(presets);
                layers.api_version = version;
            }
        });
    }

    fn make_stored(&self, stored: &StoredTool) -> Result<Entry, String> {
        let (definition, fetched) = dynamic::read_stored(&stored.definition)?;
        let made = Made {
            source: Source::Api,
            revision: stored.revision,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        };
        self.make_best(definition, made, fetched, None).map_err(|faults| check::summary(&faults))
    }

    /// Shows the definitions of the tools folder, each with the time of its file; an unchanged one keeps its compiled form
    /// and its revision.
    ///
    /// # Errors
    /// The first definition that is refused; then nothing changes.
    pub fn show_files(&self, definitions: Vec<(ToolDefinition, Time)>) -> Result<(), (String, Vec<Fault>)> {
        let old = self.layers().file.clone();
        let mut fresh = Layer::new();
        for (definition, written) in definitions {
            let name = definition.name.clone();
            let before = old.get(&name);
            if let Some(same) = before.filter(|entry| entry.declared == definition) {
                fresh.insert(name, same.clone());
                continue;
            }
            let made = Made {
                source: Source::File,
                revision: before.map_or(1, |entry| entry.made.revision + 1),
                created_at: before.map_or(written, |entry| entry.made.created_at),
                updated_at: written,
            };
            let entry = self.workshop.make(definition, made).map_err(|faults| (name.clone(), faults))?;
            fresh.insert(name, Arc::new(entry));
        }
        self.change(|layers| layers.file = fresh);
        Ok(())
    }

    /// Compiles a definition as it is, with what came from its `definition_url`, without registering it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn try_with(&self, definition: ToolDefinition, fetched: dynamic::Fetched) -> Result<(), Vec<Fault>> {
        self.workshop.make_with(definition, self.trial(Source::Api), fetched).map(drop)
    }

    /// The presets that were written over the API for a tool of this name.
    fn stored_presets(&self, tool: &str) -> Presets {
        self.layers().wardrobe.of(tool).cloned().unwrap_or_default()
    }

    fn layers(&self) -> std::sync::MutexGuard<'_, Layers> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the layers and shows what follows from them.
    fn change(&self, change: impl FnOnce(&mut Layers)) {
        let mut layers = self.layers();
        change(&mut layers);
        let mut shown = layers.builtin.clone();
        shown.extend(layers.mcp.clone());
        shown.extend(layers.file.clone());
        shown.extend(layers.api.clone());
        layers.wardrobe.dress(&mut shown, &self.workshop);
        // Stored while the layers are locked, so that snapshots follow each other as the changes do.
        self.shown.store(Arc::new(Snapshot::new(shown, layers.all_groups())));
    }
}

/// The built-in tools by name.
pub(crate) type Builtins = BTreeMap<String, BuiltinTool>;
