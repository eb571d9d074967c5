//! The registry of tools: layers by source, with entries that are compiled once and read without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::domain::{Clock, Group, Groups, Source, Tenant, Time, ToolDefinition};
use crate::executor::Instances;

pub mod builder;
pub mod catalog;
pub mod check;
pub mod definitions;
pub mod discovery;
pub mod entry;
pub mod fetched;
pub mod files;
pub mod imports;
mod preset_overlay;
pub mod presets;
pub mod refresh;
pub mod remote;
mod search;
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

use builder::EntryBuilder;
use discovery::SharedCatalogs;
use entry::Provenance;
use tenant::TenantTools;

/// The declaration time of built-in tools. It is constant, so that every node and every start returns the same entity
/// tag.
const BUILT_IN_SINCE: Time = Time(0);

/// The tools of one source by name.
type Layer = BTreeMap<String, Arc<Entry>>;

/// All compiled tools of all sources and tenants. The callers of a tenant read its [`Catalog`]; a call keeps the entry
/// that it started with.
pub struct Registry {
    builder: EntryBuilder,
    clock: Clock,
    layers: Mutex<Layers>,
    catalogs: SharedCatalogs,
    /// The number of published snapshots.
    changed: watch::Sender<u64>,
}

/// The tools that the server declares for all tenants, and the tools of each tenant. A tenant is loaded on first use.
#[derive(Default)]
struct Layers {
    builtin: Layer,
    mcp: Layer,
    file: Layer,
    own: HashMap<Tenant, TenantTools>,
}

impl Layers {
    /// Returns the layers of the server and of all tenants.
    fn all(&self) -> impl Iterator<Item = &Layer> {
        [&self.builtin, &self.mcp, &self.file].into_iter().chain(self.own.values().map(|own| &own.api))
    }

    /// Returns a tenant's stored groups and the groups that definitions name.
    fn groups_of(&self, own: &TenantTools) -> Groups {
        let mut groups = own.groups.clone();
        let entries = [&self.builtin, &self.mcp, &self.file, &own.api].into_iter().flat_map(Layer::values);
        for name in entries.flat_map(|entry| &entry.definition.groups) {
            groups.entry(name.clone()).or_insert_with(|| Arc::new(Group::named(name)));
        }
        groups
    }

    /// Builds the snapshot of a tenant: `api` shadows `file`, which shadows `mcp`, which shadows `builtin`.
    fn snapshot_of(&mut self, tenant: &Tenant, builder: &EntryBuilder) -> Snapshot {
        // Removed for now, because the overlays are borrowed mutably next to the other layers.
        let mut own = self.own.remove(tenant).unwrap_or_default();
        let mut tools = self.builtin.clone();
        tools.extend(self.mcp.clone());
        tools.extend(self.file.clone());
        tools.extend(own.api.clone());
        own.overlays.apply(&mut tools, builder);
        let groups = self.groups_of(&own);
        self.own.insert(tenant.clone(), own);
        Snapshot::new(tools, groups, &builder.name_separator)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// Creates a registry with the built-in tools that publishes its snapshots to `catalogs`.
    ///
    /// # Errors
    /// Returns the name and the faults of the first built-in tool with an invalid definition.
    pub fn new(builder: EntryBuilder, clock: Clock, catalogs: SharedCatalogs) -> Result<Self, (String, Vec<Fault>)> {
        let mut layers = Layers::default();
        for tool in builder.builtins.values() {
            let made = Provenance::of_change(None, Source::Builtin, BUILT_IN_SINCE);
            let name = tool.definition.name.clone();
            let entry = builder.make(tool.definition.clone(), made).map_err(|faults| (name.clone(), faults))?;
            layers.builtin.insert(name, Arc::new(entry));
        }
        layers.own.insert(Tenant::default(), TenantTools::default());
        let registry = Self { builder, clock, layers: Mutex::new(layers), catalogs, changed: watch::Sender::new(0) };
        registry.change(|_| ());
        Ok(registry)
    }

    /// Returns the tool instances that factories have created.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        &self.builder.instances
    }

    /// Returns the catalog of a tenant, or `None` if the tenant is not loaded.
    #[must_use]
    pub fn shelf(&self, tenant: &Tenant) -> Option<Arc<Catalog>> {
        self.catalogs.of(tenant)
    }

    /// Returns the catalog of the default tenant, which is always loaded.
    #[must_use]
    pub fn default_shelf(&self) -> &Arc<Catalog> {
        self.catalogs.default_shelf()
    }

    /// Subscribes to changes; a value is sent for every published snapshot.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Compiles a definition as a file of the server would be, without registering it. Returns it with its defaults.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn try_definition(&self, definition: ToolDefinition) -> Result<ToolDefinition, Vec<Fault>> {
        self.builder.make(definition, self.trial(Source::File)).map(|entry| entry.definition)
    }

    /// Returns the provenance of an entry that is compiled only for validation.
    fn trial(&self, source: Source) -> Provenance {
        Provenance::of_change(None, source, self.clock.now())
    }

    /// Copies the values of the registered tool's presets to presets without a value. No response contains these
    /// values, so a client that reads, edits and puts a definition cannot send them back.
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

    /// Returns the names of the built-in and file tools in this group, including shadowed ones.
    #[must_use]
    pub fn declared_in_group(&self, group: &str) -> Vec<Arc<str>> {
        let layers = self.layers();
        let declared = layers.builtin.values().chain(layers.file.values());
        let within = declared.filter(|entry| entry.definition.groups.iter().any(|name| name == group));
        within.map(|entry| entry.name.clone()).collect()
    }

    /// Publishes the definitions of the tools folder, each with the modification time of its file. An unchanged
    /// definition keeps its compiled entry and its revision.
    ///
    /// # Errors
    /// Returns the name and the faults of the first invalid definition; the registry is then unchanged.
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
            let made = Provenance::of_change(before, Source::File, written);
            let entry = self.builder.make(definition, made).map_err(|faults| (name.clone(), faults))?;
            fresh.insert(name, Arc::new(entry));
        }
        self.change(|layers| layers.file = fresh);
        Ok(())
    }

    /// Compiles a definition together with the document that its `definition_url` returned, without registering it.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn try_with(&self, definition: ToolDefinition, fetched: fetched::FetchedDefinition) -> Result<(), Vec<Fault>> {
        self.builder.make_with(definition, self.trial(Source::Api), fetched).map(drop)
    }

    fn layers(&self) -> std::sync::MutexGuard<'_, Layers> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes layers of the server or of several tenants, and publishes new snapshots for all loaded tenants.
    fn change(&self, change: impl FnOnce(&mut Layers)) {
        let mut layers = self.layers();
        change(&mut layers);
        let tenants: Vec<Tenant> = layers.own.keys().cloned().collect();
        for tenant in tenants {
            self.publish(&mut layers, &tenant);
        }
    }

    /// Changes the tools of a tenant and publishes its new snapshot.
    fn change_own(&self, tenant: &Tenant, change: impl FnOnce(&mut TenantTools)) -> Arc<Catalog> {
        let mut layers = self.layers();
        change(layers.own.entry(tenant.clone()).or_default());
        self.publish(&mut layers, tenant)
    }

    /// Publishes a snapshot of a tenant. The layers are locked meanwhile, so that snapshots are in the order of the
    /// changes.
    fn publish(&self, layers: &mut Layers, tenant: &Tenant) -> Arc<Catalog> {
        let snapshot = Arc::new(layers.snapshot_of(tenant, &self.builder));
        let catalog = self.catalogs.publish(tenant, snapshot);
        self.changed.send_modify(|changes| *changes += 1);
        catalog
    }
}
