//! The registered tools of a tenant: read from the store, compiled and published.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::Catalog;
use super::entry::Provenance;
use super::preset_overlay::PresetOverlays;
use super::{Entry, Layer, Registry, check, fetched};
use crate::domain::{Group, Groups, Source, Tenant};
use crate::store::presets::StoredPreset;
use crate::store::tools::StoredTool;
use crate::store::{Store, StoreError};

/// Maximum number of reads if the stored tools change meanwhile.
const MOST_READS: u32 = 8;

/// The tools, presets and groups of one tenant.
#[derive(Debug, Default)]
pub(super) struct TenantTools {
    pub api: Layer,
    /// The presets stored through the API.
    pub overlays: PresetOverlays,
    /// The stored groups. Other groups exist because definitions name them.
    pub groups: Groups,
    /// The published version of the stored tools and groups; `None` before the first one.
    pub version: Option<i64>,
}

/// The stored tools, presets and groups of a tenant.
struct StoredTenantTools {
    tools: Vec<StoredTool>,
    presets: Vec<StoredPreset>,
    groups: Vec<Group>,
    version: i64,
}

async fn read(store: &Store) -> Result<StoredTenantTools, StoreError> {
    let mut reads = 0;
    loop {
        reads += 1;
        let (tools, version) = store.tools().await?;
        let (groups, presets) = (store.groups().await?, store.presets().await?);
        // Tools and groups of different versions could activate a tool that was never meant to be callable.
        if reads == MOST_READS || store.tools_version().await? == version {
            return Ok(StoredTenantTools { tools, presets, groups, version });
        }
    }
}

impl Registry {
    /// Returns the catalog of the store's tenant, and loads it if necessary. A catalog that is held is never removed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn open(&self, store: &Store) -> Result<Arc<Catalog>, StoreError> {
        if let Some(catalog) = self.catalogs.of(store.tenant()) {
            return Ok(catalog);
        }
        let stored = read(store).await?;
        // Held from here on, so that it cannot be removed before it is returned.
        let catalog = self.publish_stored(store.tenant(), stored);
        // The lock prevents that a catalog is published while it is removed.
        let mut layers = self.layers();
        for tenant in self.catalogs.clear() {
            layers.own.remove(&tenant);
        }
        Ok(catalog)
    }

    /// Reads and publishes the registered tools of the store's tenant.
    ///
    /// # Errors
    /// Returns an error if the database fails; the registry is then unchanged.
    pub async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let stored = read(store).await?;
        self.publish_stored(store.tenant(), stored);
        Ok(())
    }

    /// Publishes stored tools and groups. A tool that no longer compiles is skipped and logged. A version older than
    /// the published one changes nothing.
    fn publish_stored(&self, tenant: &Tenant, stored: StoredTenantTools) -> Arc<Catalog> {
        let StoredTenantTools { tools, presets, groups, version } = stored;
        let mut fresh = Layer::new();
        for stored in tools {
            let known = self
                .api_entry(tenant, &stored.name)
                .filter(|entry| (entry.made.revision, entry.made.updated_at) == (stored.revision, stored.updated_at));
            let entry = match known {
                Some(entry) => entry,
                None => match self.make_stored(&stored) {
                    Ok(entry) => Arc::new(entry),
                    Err(reason) => {
                        tracing::error!(tool = stored.name, reason, "a registered tool is invalid and was skipped");
                        continue;
                    }
                },
            };
            fresh.insert(stored.name, entry);
        }
        self.change_own(tenant, |own| {
            if own.version.is_none_or(|published| version >= published) {
                own.api = fresh;
                own.groups = groups.into_iter().map(|group| (group.name.clone(), Arc::new(group))).collect();
                own.overlays.fill(presets);
                own.version = Some(version);
            }
        })
    }

    fn make_stored(&self, stored: &StoredTool) -> Result<Entry, String> {
        let (definition, fetched) = fetched::read_stored(&stored.definition)?;
        let made = Provenance {
            source: Source::Api,
            revision: stored.revision,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        };
        self.make_best(definition, made, fetched, None).map_err(|faults| check::summary(&faults))
    }

    /// Returns the published version of a tenant's stored tools, or `None` if the tenant is not loaded.
    #[must_use]
    pub fn version_of(&self, tenant: &Tenant) -> Option<i64> {
        self.layers().own.get(tenant)?.version
    }

    /// Returns a tenant's registered tool of this name. No other source shadows registered tools.
    #[must_use]
    pub fn api_entry(&self, tenant: &Tenant, name: &str) -> Option<Arc<Entry>> {
        self.layers().own.get(tenant)?.api.get(name).cloned()
    }

    /// Returns the presets that a tenant has stored for a tool of this name.
    pub(super) fn stored_presets(&self, tenant: &Tenant, tool: &str) -> BTreeMap<String, crate::domain::Preset> {
        let layers = self.layers();
        layers.own.get(tenant).and_then(|own| own.overlays.of(tool)).cloned().unwrap_or_default()
    }
}
