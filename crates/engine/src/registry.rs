//! The registry of tools: layers by source, with tools that are compiled when they are used and read without a lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use toolpost_core::domain::{Clock, Source, Tenant, Time, ToolDefinition};
use toolpost_tool::executor::Instances;

pub mod builder;
pub mod catalog;
pub mod check;
pub mod checked;
mod compiled;
mod declared;
pub mod definitions;
pub mod discovery;
pub mod entry;
pub mod fetched;
pub mod files;
pub mod imports;
mod layer;
mod layers;
pub mod listed;
mod mangled;
mod name_map;
mod names;
mod preset_overlay;
pub mod presets;
pub mod record;
pub mod refresh;
pub mod remote;
mod rendered;
mod search;
pub mod snapshot;
mod tenant;
#[cfg(test)]
mod tests;
mod tool_index;
pub mod upstream;
mod validators;
pub mod view;
mod words;

pub use catalog::Catalog;
pub use check::Fault;
pub use entry::Entry;
pub use record::ToolRecord;
pub use snapshot::Snapshot;
pub use view::{Lookup, View};

use builder::EntryBuilder;
use declared::DeclaredDefinition;
use discovery::SharedCatalogs;
use entry::Provenance;
use fetched::FetchedDefinition;
use layer::ChangedNames;
use layers::Layers;
use tenant::TenantTools;

/// The declaration time of built-in tools. It is constant, so that every node and every start returns the same entity
/// tag.
const BUILT_IN_SINCE: Time = Time(0);

/// All tools of all sources and tenants. The callers of a tenant read its [`Catalog`]; a call keeps the entry
/// that it started with.
pub struct Registry {
    builder: Arc<EntryBuilder>,
    clock: Clock,
    layers: Mutex<Layers>,
    catalogs: SharedCatalogs,
    /// How many requests read the tools of a tenant whose catalog is not published yet.
    loading: Mutex<BTreeMap<Tenant, usize>>,
    /// The number of published snapshots.
    changed: watch::Sender<u64>,
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
        let builder = Arc::new(builder);
        let mut layers = Layers::default();
        for tool in builder.builtins.values() {
            let made = Provenance::of_change(None, Source::Builtin, BUILT_IN_SINCE);
            let declared = declared_of(&tool.definition);
            let record = declared.and_then(|declared| record_of(&builder, &tool.definition, declared, made));
            layers.builtin.insert(Arc::new(record.map_err(|faults| (tool.definition.name.clone(), faults))?));
        }
        layers.own.insert(Tenant::default(), TenantTools::default());
        let registry = Self {
            builder,
            clock,
            layers: Mutex::new(layers),
            catalogs,
            loading: Mutex::default(),
            changed: watch::Sender::new(0),
        };
        registry.publish_new(&mut registry.layers(), &Tenant::default());
        Ok(registry)
    }

    /// Returns the tool instances that factories have created.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        &self.builder.instances
    }

    /// Returns the catalog of a tenant, or `None` if the tenant is not loaded.
    #[must_use]
    pub fn catalog(&self, tenant: &Tenant) -> Option<Arc<Catalog>> {
        self.catalogs.get(tenant)
    }

    /// Returns the catalog of the default tenant, which is always loaded.
    #[must_use]
    pub fn default_catalog(&self) -> &Arc<Catalog> {
        self.catalogs.default_catalog()
    }

    /// Subscribes to changes; a value is sent for every published snapshot.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Checks a definition as a file of the server would be, without registering it. Returns it with its defaults.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn try_definition(&self, definition: &ToolDefinition) -> Result<ToolDefinition, Vec<Fault>> {
        self.builder.check(definition, Source::File, FetchedDefinition::default()).map(|facts| facts.definition)
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
        let Some(record) = found.cloned() else { return };
        drop(layers);
        if let Ok(declared) = record.declared() {
            presets::keep(&mut definition.presets, &declared.presets);
        }
    }

    /// Returns the names of the built-in and file tools in this group, including shadowed ones.
    #[must_use]
    pub fn declared_in_group(&self, group: &str) -> Vec<Arc<str>> {
        let layers = self.layers();
        let declared = layers.builtin.values().chain(layers.file.values());
        let within = declared.filter(|record| record.groups.iter().any(|name| name == group));
        within.map(|record| record.name.clone()).collect()
    }

    /// Publishes these definitions as those of the tools folder, each with the modification time of its file.
    ///
    /// # Errors
    /// Returns the name and the faults of the first invalid definition; the registry is then unchanged.
    pub fn show_files(&self, definitions: Vec<(ToolDefinition, Time)>) -> Result<(), (String, Vec<Fault>)> {
        let of_file = |(definition, written): (ToolDefinition, Time)| match declared_of(&definition) {
            Ok(declared) => Ok((declared, written)),
            Err(faults) => Err((definition.name, faults)),
        };
        let declared: Result<Vec<_>, _> = definitions.into_iter().map(of_file).collect();
        self.show_declared(declared?)
    }

    /// Publishes the definitions of the tools folder, each with the modification time of its file. An unchanged
    /// definition keeps its record and its revision.
    fn show_declared(&self, definitions: Vec<(DeclaredDefinition, Time)>) -> Result<(), (String, Vec<Fault>)> {
        let old: BTreeMap<Arc<str>, Arc<ToolRecord>> =
            self.layers().file.values().map(|record| (record.name.clone(), record.clone())).collect();
        let mut fresh = BTreeMap::new();
        for (declared, written) in definitions {
            let before = old.get(declared.name());
            if let Some(same) = before.filter(|record| record.text().is(&declared)) {
                fresh.insert(same.name.clone(), same.clone());
                continue;
            }
            let made = Provenance::of_change(before.map(|before| before.made), Source::File, written);
            let definition = declared.read().map_err(|error| vec![Fault::at("", error.to_string())]);
            let name = declared.name().to_string();
            let record = definition.and_then(|definition| record_of(&self.builder, &definition, declared, made));
            let record = record.map_err(|faults| (name, faults))?;
            fresh.insert(record.name.clone(), Arc::new(record));
        }
        self.change(|layers, changed| layers.file.replace(fresh, |_| true, changed));
        Ok(())
    }

    /// Checks a definition together with the document that its `definition_url` returned, without registering it.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn try_with(&self, definition: &ToolDefinition, fetched: FetchedDefinition) -> Result<(), Vec<Fault>> {
        self.builder.check(definition, Source::Api, fetched).map(drop)
    }

    fn layers(&self) -> std::sync::MutexGuard<'_, Layers> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes layers of the server or of several tenants, and publishes new snapshots for all loaded tenants.
    fn change(&self, change: impl FnOnce(&mut Layers, &mut ChangedNames)) {
        let mut layers = self.layers();
        let mut changed = ChangedNames::new();
        change(&mut layers, &mut changed);
        let tenants: Vec<Tenant> = layers.own.keys().cloned().collect();
        for tenant in tenants {
            self.publish(&mut layers, &tenant, &changed);
        }
    }

    /// Changes the tools of a tenant and publishes its new snapshot.
    fn change_own(&self, tenant: &Tenant, change: impl FnOnce(&mut TenantTools, &mut ChangedNames)) -> Arc<Catalog> {
        let mut layers = self.layers();
        let mut changed = ChangedNames::new();
        change(layers.own.entry(tenant.clone()).or_default(), &mut changed);
        match self.catalogs.get(tenant) {
            Some(_) => self.publish(&mut layers, tenant, &changed),
            None => self.publish_new(&mut layers, tenant),
        }
    }

    /// Publishes the first snapshot of a tenant.
    fn publish_new(&self, layers: &mut Layers, tenant: &Tenant) -> Arc<Catalog> {
        let empty = Snapshot::empty(&self.builder.name_separator, &self.builder.memory);
        let own = layers.own.get(tenant);
        let names = own.map(|own| layers.names(own)).unwrap_or_default();
        self.publish_after(layers, tenant, &empty, &names)
    }

    /// Publishes a snapshot of a tenant after changes of these tools.
    fn publish(&self, layers: &mut Layers, tenant: &Tenant, changed: &ChangedNames) -> Arc<Catalog> {
        let Some(catalog) = self.catalogs.get(tenant) else { return self.publish_new(layers, tenant) };
        let before = catalog.snapshot().clone();
        self.publish_after(layers, tenant, &before, changed)
    }

    /// Publishes the snapshot that follows another one. The layers are locked meanwhile, so that snapshots are in the
    /// order of the changes.
    fn publish_after(
        &self,
        layers: &mut Layers,
        tenant: &Tenant,
        before: &Snapshot,
        changed: &ChangedNames,
    ) -> Arc<Catalog> {
        let snapshot = Arc::new(layers.snapshot_of(tenant, before, changed, &self.builder));
        let catalog = self.catalogs.publish(tenant, snapshot);
        self.changed.send_modify(|changes| *changes += 1);
        catalog
    }
}

/// Returns the text of a definition.
fn declared_of(definition: &ToolDefinition) -> Result<DeclaredDefinition, Vec<Fault>> {
    DeclaredDefinition::of(definition).map_err(|error| vec![Fault::at("", error.to_string())])
}

/// Checks a definition and creates its record.
fn record_of(
    builder: &Arc<EntryBuilder>,
    definition: &ToolDefinition,
    declared: DeclaredDefinition,
    made: Provenance,
) -> Result<ToolRecord, Vec<Fault>> {
    let facts = builder.check(definition, made.source, FetchedDefinition::default())?;
    Ok(ToolRecord::new(builder, declared, facts, made))
}
