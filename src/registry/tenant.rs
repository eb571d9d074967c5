//! What one tenant has registered: read from the store, compiled, and shown over what the server declares.

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

/// How often what is stored is read anew at most, if it changes meanwhile.
const MOST_READS: u32 = 8;

/// A tenant's own.
#[derive(Debug)]
pub(super) struct TenantTools {
    pub api: Layer,
    /// Presets that were written over the API.
    pub wardrobe: PresetOverlays,
    /// The stored groups; others are there because a definition names them.
    pub groups: Groups,
    /// The version of the stored tools and groups that is shown.
    pub version: i64,
}

impl Default for TenantTools {
    fn default() -> Self {
        Self { api: Layer::new(), wardrobe: PresetOverlays::default(), groups: Groups::new(), version: -1 }
    }
}

/// A tenant's own as it was read.
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
        // Tools of one moment with the groups of another could show a tool that was never to be called.
        if reads == MOST_READS || store.tools_version().await? == version {
            return Ok(StoredTenantTools { tools, presets, groups, version });
        }
    }
}

impl Registry {
    /// The shelf of the store's tenant, with what is stored on it. As long as it is held it stays.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn open(&self, store: &Store) -> Result<Arc<Catalog>, StoreError> {
        if let Some(shelf) = self.shelves.of(store.tenant()) {
            return Ok(shelf);
        }
        let stored = read(store).await?;
        // Held from here on: it cannot be cleared between being filled and being handed out.
        let shelf = self.publish_stored(store.tenant(), stored);
        self.clear();
        Ok(shelf)
    }

    /// Reads what the store's tenant has registered, and shows it.
    ///
    /// # Errors
    /// If the database fails; then nothing changes.
    pub async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let stored = read(store).await?;
        self.publish_stored(store.tenant(), stored);
        Ok(())
    }

    /// Forgets tenants that nobody asks for, where there are too many.
    fn clear(&self) {
        let mut layers = self.layers();
        // Under the lock, so that nobody fills a shelf that is just being cleared.
        for tenant in self.shelves.clear() {
            layers.own.remove(&tenant);
        }
    }

    /// Shows the stored tools and groups. A tool that cannot be compiled any more is left out and told in the log. An older
    /// version than the one shown changes nothing.
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
                        tracing::error!(tool = stored.name, reason, "a registered tool is left out");
                        continue;
                    }
                },
            };
            fresh.insert(stored.name, entry);
        }
        self.change_own(tenant, |own| {
            if version >= own.version {
                own.api = fresh;
                own.groups = groups.into_iter().map(|group| (group.name.clone(), Arc::new(group))).collect();
                own.wardrobe.fill(presets);
                own.version = version;
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

    /// The version of a tenant's stored tools that is shown, if any is.
    #[must_use]
    pub fn version_of(&self, tenant: &Tenant) -> Option<i64> {
        self.layers().own.get(tenant).map(|own| own.version)
    }

    /// A tenant's registered tool of this name, even where another hides it; nothing hides one from the API.
    #[must_use]
    pub fn api_entry(&self, tenant: &Tenant, name: &str) -> Option<Arc<Entry>> {
        self.layers().own.get(tenant)?.api.get(name).cloned()
    }

    /// The presets that a tenant has written over the API for a tool of this name.
    pub(super) fn stored_presets(&self, tenant: &Tenant, tool: &str) -> BTreeMap<String, crate::domain::Preset> {
        let layers = self.layers();
        layers.own.get(tenant).and_then(|own| own.wardrobe.of(tool)).cloned().unwrap_or_default()
    }
}
