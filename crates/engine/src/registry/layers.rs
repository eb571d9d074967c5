//! The layers of tools: by source, and by tenant for registered tools.

use std::collections::HashMap;
use std::sync::Arc;

use super::ToolRecord;
use super::builder::EntryBuilder;
use super::layer::{ChangedNames, Layer};
use super::snapshot::{Snapshot, ToolChanges};
use super::tenant::TenantTools;
use toolpost_core::domain::{Group, Groups, Tenant};

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
