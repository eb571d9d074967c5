//! The tools that there are: layers by source, compiled once, read without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::domain::{Clock, Group, Groups, Source, Tenant, Time, ToolDefinition};
use crate::executor::Instances;
use crate::tool::BuiltinTool;

pub mod catalog;
pub mod check;
pub mod definitions;
pub mod discovery;
pub mod entry;
pub mod fetched;
pub mod files;
pub mod imports;
mod lowered;
mod preset_overlay;
pub mod presets;
pub mod refresh;
pub mod remote;
pub mod rendered;
mod search;
pub mod session;
pub mod snapshot;
mod tenant;
#[cfg(test)]
mod tests;
pub mod upstream;
pub mod view;
mod words;

pub use catalog::Catalog;
pub use check::Fault;
pub use entry::Entry;
pub use snapshot::Snapshot;
pub use view::{Lookup, View};

use discovery::SharedCatalogs;
use entry::{EntryBuilder, Provenance};
use tenant::TenantTools;

/// When built-in tools were declared: they come with the program, so that every node and every start shows the same.
const BUILT_IN_SINCE: Time = Time(0);

/// One layer: its tools by name.
type Layer = BTreeMap<String, Arc<Entry>>;

/// All tools of all sources. What the callers of one tenant see is on a [`Catalog`]; a call keeps the entry that it started
/// with.
pub struct Registry {
    workshop: EntryBuilder,
    clock: Clock,
    layers: Mutex<Layers>,
    shelves: SharedCatalogs,
    /// Counts what was shown.
    changed: watch::Sender<u64>,
}

/// What the server declares for everybody, and what each tenant has of its own. Of tenants that nobody has asked for there
/// is nothing.
#[derive(Default)]
struct Layers {
    builtin: Layer,
    mcp: Layer,
    file: Layer,
    own: HashMap<Tenant, TenantTools>,
}

impl Layers {
    /// All layers, whosever they are.
    fn all(&self) -> impl Iterator<Item = &Layer> {
        [&self.builtin, &self.mcp, &self.file].into_iter().chain(self.own.values().map(|own| &own.api))
    }

    /// A tenant's stored groups, and those that a definition names.
    fn groups_of(&self, own: &TenantTools) -> Groups {
        let mut groups = own.groups.clone();
        let entries = [&self.builtin, &self.mcp, &self.file, &own.api].into_iter().flat_map(Layer::values);
        for name in entries.flat_map(|entry| &entry.definition.groups) {
            if !groups.contains_key(name) {
                groups.insert(name.clone(), Arc::new(Group::named(name)));
            }
        }
        groups
    }

    /// What a tenant sees: `api` over `file` over `mcp` over `builtin`.
    fn snapshot_of(&mut self, tenant: &Tenant, workshop: &EntryBuilder) -> Snapshot {
        // Taken out meanwhile: what it is shown over is beside it.
        let mut own = self.own.remove(tenant).unwrap_or_default();
        let mut shown = self.builtin.clone();
        shown.extend(self.mcp.clone());
        shown.extend(self.file.clone());
        shown.extend(own.api.clone());
        own.wardrobe.apply(&mut shown, workshop);
        let groups = self.groups_of(&own);
        self.own.insert(tenant.clone(), own);
        Snapshot::new(shown, groups, workshop.separator())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Registry")
            .field("tools", &self.shelves.default_shelf().snapshot().list().len())
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry with the built-in tools, which is looked at through `shelves`.
    ///
    /// # Errors
    /// A built-in whose own definition is refused.
    pub fn new(workshop: EntryBuilder, clock: Clock, shelves: SharedCatalogs) -> Result<Self, (String, Vec<Fault>)> {
        let mut layers = Layers::default();
        for tool in workshop.builtins() {
            let made = Provenance {
                source: Source::Builtin,
                revision: 1,
                created_at: BUILT_IN_SINCE,
                updated_at: BUILT_IN_SINCE,
            };
            let name = tool.definition.name.clone();
            let entry = workshop.make(tool.definition.clone(), made).map_err(|faults| (name.clone(), faults))?;
            layers.builtin.insert(name, Arc::new(entry));
        }
        layers.own.insert(Tenant::default(), TenantTools::default());
        let registry = Self { workshop, clock, layers: Mutex::new(layers), shelves, changed: watch::Sender::new(0) };
        registry.change(|_| ());
        Ok(registry)
    }

    /// The instances of tools that are made by factories.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        self.workshop.instances()
    }

    /// A tenant's shelf, if somebody has opened it.
    #[must_use]
    pub fn shelf(&self, tenant: &Tenant) -> Option<Arc<Catalog>> {
        self.shelves.of(tenant)
    }

    /// The shelf of the default tenant, which is always there.
    #[must_use]
    pub fn default_shelf(&self) -> &Arc<Catalog> {
        self.shelves.default_shelf()
    }

    /// Tells of every change of what there is.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Compiles a definition without registering it, as one that is declared on the server.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn try_definition(&self, definition: ToolDefinition) -> Result<ToolDefinition, Vec<Fault>> {
        self.workshop.make(definition, self.trial(Source::File)).map(|entry| entry.definition)
    }

    /// How an entry is made that is compiled to see whether it could be, and never shown.
    fn trial(&self, source: Source) -> Provenance {
        let now = self.clock.now();
        Provenance { source, revision: 0, created_at: now, updated_at: now }
    }

    /// A preset without a value keeps the one that the tool's declaration has: no answer shows it, so a definition that was
    /// read, changed and put cannot bring it along.
    pub fn keep_presets(&self, tenant: &Tenant, definition: &mut ToolDefinition) {
        if definition.presets.is_empty() {
            return;
        }
        let layers = self.layers();
        let api = layers.own.get(tenant).map(|own| &own.api);
        let sources = api.into_iter().chain([&layers.file, &layers.mcp, &layers.builtin]);
        let found = sources.into_iter().find_map(|layer| layer.get(&definition.name));
        let Some(entry) = found.cloned() else { return };
        drop(layers);
        presets::keep(&mut definition.presets, &entry.declared.presets);
    }

    /// The tools of this group that come with the program or stand in files, hidden ones included.
    #[must_use]
    pub fn declared_in_group(&self, group: &str) -> Vec<Arc<str>> {
        let layers = self.layers();
        let declared = layers.builtin.values().chain(layers.file.values());
        let within = declared.filter(|entry| entry.definition.groups.iter().any(|name| name == group));
        within.map(|entry| entry.name.clone()).collect()
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
            let made = Provenance {
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
    pub fn try_with(&self, definition: ToolDefinition, fetched: fetched::FetchedDefinition) -> Result<(), Vec<Fault>> {
        self.workshop.make_with(definition, self.trial(Source::Api), fetched).map(drop)
    }

    fn layers(&self) -> std::sync::MutexGuard<'_, Layers> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the server declares, or what several have, and shows everybody what follows from it.
    fn change(&self, change: impl FnOnce(&mut Layers)) {
        let mut layers = self.layers();
        change(&mut layers);
        let tenants: Vec<Tenant> = layers.own.keys().cloned().collect();
        for tenant in tenants {
            self.show(&mut layers, &tenant);
        }
    }

    /// Changes what a tenant has, and shows it what follows from that.
    fn change_own(&self, tenant: &Tenant, change: impl FnOnce(&mut TenantTools)) -> Arc<Catalog> {
        let mut layers = self.layers();
        change(layers.own.entry(tenant.clone()).or_default());
        self.show(&mut layers, tenant)
    }

    /// While the layers are locked, so that snapshots follow each other as the changes do.
    fn show(&self, layers: &mut Layers, tenant: &Tenant) -> Arc<Catalog> {
        let snapshot = Arc::new(layers.snapshot_of(tenant, &self.workshop));
        let shelf = self.shelves.publish(tenant, snapshot);
        self.changed.send_modify(|changes| *changes += 1);
        shelf
    }
}

/// The built-in tools by name.
pub(crate) type Builtins = BTreeMap<String, BuiltinTool>;
