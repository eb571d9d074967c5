//! The layers of tools: by source, and by tenant for registered tools.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::ToolRecord;
use super::builder::EntryBuilder;
use super::snapshot::{Snapshot, ToolChanges};
use super::tenant::TenantTools;
use crate::domain::{Group, Groups, Tenant};

/// The names of changed tools.
pub(super) type ChangedNames = BTreeSet<Arc<str>>;

/// The tools that the server declares for all tenants, and the tools of each tenant. A tenant is loaded on first use.
#[derive(Default)]
pub(super) struct Layers {
    pub builtin: Layer,
    pub mcp: Layer,
    pub file: Layer,
    pub own: HashMap<Tenant, TenantTools>,
}

impl Layers {
    /// Returns the layers of the server and of all tenants.
    pub fn all(&self) -> impl Iterator<Item = &Layer> {
        [&self.builtin, &self.mcp, &self.file].into_iter().chain(self.own.values().map(|own| &own.api))
    }

    /// Returns a tenant's tool of this name: `api` shadows `file`, which shadows `mcp`, which shadows `builtin`.
    pub fn get(&self, own: &TenantTools, name: &str) -> Option<Arc<ToolRecord>> {
        [&own.api, &self.file, &self.mcp, &self.builtin].into_iter().find_map(|layer| layer.get(name)).cloned()
    }

    /// Returns the names of all tools that a tenant can have.
    pub fn names(&self, own: &TenantTools) -> ChangedNames {
        let layers = [&own.api, &self.file, &self.mcp, &self.builtin];
        layers.into_iter().flat_map(Layer::values).map(|record| record.name.clone()).collect()
    }

    /// Returns a tenant's stored groups and the groups that definitions name.
    fn groups_of(&self, own: &TenantTools) -> Groups {
        let mut groups = own.groups.clone();
        for name in [&self.builtin, &self.mcp, &self.file, &own.api].into_iter().flat_map(Layer::groups) {
            groups.entry(name.clone()).or_insert_with(|| Arc::new(Group::named(name)));
        }
        groups
    }

    /// Builds the next snapshot of a tenant after changes of these tools.
    pub fn snapshot_of(
        &mut self,
        tenant: &Tenant,
        before: &Snapshot,
        changed: &ChangedNames,
        builder: &Arc<EntryBuilder>,
    ) -> Snapshot {
        // Removed for now, because the overlays are borrowed mutably next to the other layers.
        let mut own = self.own.remove(tenant).unwrap_or_default();
        let mut changes = ToolChanges::with_capacity(changed.len());
        for name in changed {
            let declared = self.get(&own, name);
            let record = declared.and_then(|declared| own.overlays.overlaid(declared, builder));
            // A tool that is shadowed before and after the change stays the same.
            let is_same = match (&record, before.get(name)) {
                (Some(record), Some(shown)) => Arc::ptr_eq(record, shown),
                _ => false,
            };
            if !is_same {
                changes.push((name.clone(), record));
            }
        }
        let versions = [&self.builtin, &self.mcp, &self.file, &own.api].map(Layer::groups_version);
        let groups = if own.shown_groups == Some(versions) && !own.has_new_groups {
            before.shared_groups().clone()
        } else {
            Arc::new(self.groups_of(&own))
        };
        (own.shown_groups, own.has_new_groups) = (Some(versions), false);
        self.own.insert(tenant.clone(), own);
        before.with_changes(changes, groups, &builder.name_separator)
    }
}

/// The tools of one source by name.
#[derive(Debug, Default)]
pub(super) struct Layer {
    tools: BTreeMap<Arc<str>, Arc<ToolRecord>>,
    /// The tools whose definition has a URL.
    remote: BTreeMap<Arc<str>, Arc<ToolRecord>>,
    /// The number of tools that name each group.
    groups: BTreeMap<String, usize>,
    /// A number that changes with the names of the groups.
    groups_version: u64,
}

impl Layer {
    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolRecord>> {
        self.tools.get(name)
    }

    /// Returns all tools by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<ToolRecord>> {
        self.tools.values()
    }

    /// Returns the tools whose definition has a URL, by name.
    pub fn remote(&self) -> impl Iterator<Item = &Arc<ToolRecord>> {
        self.remote.values()
    }

    /// Returns the names of the groups that tools name.
    pub fn groups(&self) -> impl Iterator<Item = &String> {
        self.groups.keys()
    }

    /// Returns a number that differs after each change of these names.
    pub fn groups_version(&self) -> u64 {
        self.groups_version
    }

    /// Adds or replaces a tool.
    pub fn insert(&mut self, record: Arc<ToolRecord>) {
        for group in &record.groups {
            let count = self.groups.entry(group.clone()).or_insert(0);
            self.groups_version += u64::from(*count == 0);
            *count += 1;
        }
        self.remote.remove(&record.name);
        if record.url().is_some() {
            self.remote.insert(record.name.clone(), record.clone());
        }
        let before = self.tools.insert(record.name.clone(), record);
        self.forget(before);
    }

    /// Removes a tool.
    pub fn remove(&mut self, name: &str) {
        self.remote.remove(name);
        let before = self.tools.remove(name);
        self.forget(before);
    }

    /// Counts the groups of a removed tool.
    fn forget(&mut self, before: Option<Arc<ToolRecord>>) {
        for group in before.iter().flat_map(|record| &record.groups) {
            let count = self.groups.get_mut(group);
            if count.is_some_and(|count| {
                *count = count.saturating_sub(1);
                *count == 0
            }) {
                self.groups.remove(group);
                self.groups_version += 1;
            }
        }
    }

    /// Replaces the tools that match a condition by `fresh`, and adds the names of all changed tools.
    pub fn replace(
        &mut self,
        fresh: BTreeMap<Arc<str>, Arc<ToolRecord>>,
        is_replaced: impl Fn(&str) -> bool,
        changed: &mut ChangedNames,
    ) {
        let gone = self.tools.keys().filter(|name| is_replaced(name) && !fresh.contains_key(*name));
        let gone: Vec<Arc<str>> = gone.cloned().collect();
        for name in gone {
            self.remove(&name);
            changed.insert(name);
        }
        for (name, record) in fresh {
            if !self.get(&name).is_some_and(|known| Arc::ptr_eq(known, &record)) {
                self.insert(record);
                changed.insert(name);
            }
        }
    }
}
