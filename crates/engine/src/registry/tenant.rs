//! The registered tools of a tenant: read from the store and published.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::catalog::Catalog;
use super::declared::DeclaredDefinition;
use super::entry::Provenance;
use super::layer::{ChangedNames, Layer};
use super::preset_overlay::PresetOverlays;
use super::{Registry, ToolRecord, check, checked, fetched};
use toolpost_core::domain::{Group, Groups, Source, Tenant};
use toolpost_store::store::presets::StoredPreset;
use toolpost_store::store::tools::{StoredTool, StoredVersion, ToolsCommit};
use toolpost_store::store::{Store, StoreError};

/// Maximum number of reads if the stored tools change meanwhile.
const MAX_READS: u32 = 8;

/// Maximum number of definitions that are read at once.
const PAGE: usize = 500;

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
    /// The versions of the groups that definitions named when the snapshot was published.
    pub shown_groups: Option<[u64; 4]>,
    /// Whether the stored groups were read since.
    pub has_new_groups: bool,
}

/// The stored tools, presets and groups of a tenant.
pub(super) struct StoredTenantTools {
    /// All tools.
    versions: Vec<StoredVersion>,
    /// The tools that are not published in these versions, or the reason why they are invalid.
    changed: HashMap<String, Result<Arc<ToolRecord>, String>>,
    presets: Vec<StoredPreset>,
    groups: Vec<Group>,
    version: i64,
}

/// A read of a tenant whose catalog is not published yet.
pub(super) struct Loading<'a> {
    registry: &'a Registry,
    tenant: Tenant,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut loading = self.registry.loading();
        if let Some(reads) = loading.get_mut(&self.tenant) {
            *reads -= 1;
            if *reads == 0 {
                loading.remove(&self.tenant);
            }
        }
    }
}

impl Registry {
    /// Returns the catalog of the store's tenant, and loads it if necessary. A catalog that is held is never removed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn open(&self, store: &Store) -> Result<Arc<Catalog>, StoreError> {
        if let Some(catalog) = self.catalogs.get(store.tenant()) {
            return Ok(catalog);
        }
        // A change that is committed during the read is read by the follower of changes, because the tenant is in use.
        let loading = self.load(store.tenant());
        let stored = self.read(store).await?;
        // Held from here on, so that it cannot be removed before it is returned.
        let catalog = self.publish_stored(store.tenant(), stored);
        drop(loading);
        // What the follower has published for a read that has not ended must stay.
        if !self.loading().is_empty() {
            return Ok(catalog);
        }
        // The lock prevents that a catalog is published while it is removed.
        let mut layers = self.layers();
        for tenant in self.catalogs.clear() {
            layers.own.remove(&tenant);
        }
        Ok(catalog)
    }

    /// Returns `true` if the catalog of a tenant is loaded or is being loaded.
    #[must_use]
    pub fn is_in_use(&self, tenant: &Tenant) -> bool {
        self.loading().contains_key(tenant) || self.catalogs.get(tenant).is_some()
    }

    /// Marks a tenant as being loaded.
    pub(super) fn load(&self, tenant: &Tenant) -> Loading<'_> {
        *self.loading().entry(tenant.clone()).or_default() += 1;
        Loading { registry: self, tenant: tenant.clone() }
    }

    fn loading(&self) -> MutexGuard<'_, BTreeMap<Tenant, usize>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and publishes the registered tools of the store's tenant.
    ///
    /// # Errors
    /// Returns an error if the database fails; the registry is then unchanged.
    pub async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let stored = self.read(store).await?;
        self.publish_stored(store.tenant(), stored);
        Ok(())
    }

    /// Publishes a committed change, and reads all tools if other changes precede it.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn apply(&self, store: &Store, commit: ToolsCommit) -> Result<(), StoreError> {
        let written: Result<Vec<ToolRecord>, String> = commit.written.iter().map(|tool| self.record(tool)).collect();
        let is_published = written.is_ok_and(|written| self.publish_commit(store.tenant(), &commit, written));
        if is_published { Ok(()) } else { self.reload(store).await }
    }

    /// Publishes a commit. Returns `false` if it is not the next one, or if it changes more than tools.
    fn publish_commit(&self, tenant: &Tenant, commit: &ToolsCommit, written: Vec<ToolRecord>) -> bool {
        let mut layers = self.layers();
        let Some(own) = layers.own.get_mut(tenant) else { return false };
        if own.version.is_some_and(|published| published >= commit.version) {
            return true;
        }
        let has_presets = commit.deleted.iter().any(|name| own.overlays.get(name).is_some());
        if own.version != Some(commit.before) || has_presets {
            return false;
        }
        let mut changed = ChangedNames::new();
        for record in written {
            changed.insert(record.name.clone());
            own.api.insert(Arc::new(record));
        }
        for name in &commit.deleted {
            own.api.remove(name);
            changed.insert(name.as_str().into());
        }
        own.version = Some(commit.version);
        self.publish(&mut layers, tenant, &changed);
        true
    }

    pub(super) async fn read(&self, store: &Store) -> Result<StoredTenantTools, StoreError> {
        let mut reads = 0;
        loop {
            reads += 1;
            let version = store.tools_version().await?;
            let versions = store.tool_versions().await?;
            let is_new = |stored: &&StoredVersion| self.published(store.tenant(), stored).is_none();
            let names: Vec<&str> = versions.iter().filter(is_new).map(|stored| stored.name.as_str()).collect();
            let mut changed = HashMap::with_capacity(names.len());
            for page in names.chunks(PAGE) {
                let tools = store.tools_named(page).await?.into_iter();
                changed.extend(tools.map(|tool| (tool.name.clone(), self.record(&tool).map(Arc::new))));
            }
            let (groups, presets) = (store.groups().await?, store.presets().await?);
            // Tools and groups of different versions could activate a tool that was never meant to be callable.
            if reads == MAX_READS || store.tools_version().await? == version {
                return Ok(StoredTenantTools { versions, changed, presets, groups, version });
            }
        }
    }

    /// Returns the published tool in this version.
    fn published(&self, tenant: &Tenant, stored: &StoredVersion) -> Option<Arc<ToolRecord>> {
        let record = self.registered(tenant, &stored.name)?;
        Some(record)
            .filter(|record| (record.made.revision, record.made.updated_at) == (stored.revision, stored.updated_at))
    }

    /// Publishes stored tools and groups. A tool that is no longer valid is skipped and logged. A version older than
    /// the published one changes nothing.
    pub(super) fn publish_stored(&self, tenant: &Tenant, stored: StoredTenantTools) -> Arc<Catalog> {
        let StoredTenantTools { versions, changed: mut read, presets, groups, version } = stored;
        let mut fresh = BTreeMap::new();
        for stored in versions {
            let record = read.remove(&stored.name).or_else(|| self.published(tenant, &stored).map(Ok));
            match record.transpose() {
                Ok(record) => fresh.extend(record.map(|record| (record.name.clone(), record))),
                Err(reason) => {
                    tracing::error!(tool = stored.name, reason, "a registered tool is invalid and was skipped");
                }
            }
        }
        self.change_own(tenant, |own, changed| {
            if own.version.is_none_or(|published| version >= published) {
                own.api.replace(fresh, |_| true, changed);
                own.groups = groups.into_iter().map(|group| (group.name.clone(), Arc::new(group))).collect();
                own.has_new_groups = true;
                own.overlays.fill(presets, changed);
                own.version = Some(version);
            }
        })
    }

    /// Creates the record of a stored tool. A definition that has passed the checks of this release is not checked
    /// again.
    pub(super) fn record(&self, stored: &StoredTool) -> Result<ToolRecord, String> {
        let made = Provenance {
            source: Source::Api,
            revision: stored.revision,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        };
        if let Some(record) = self.checked_record(stored, made) {
            return Ok(record);
        }
        let (definition, fetched) = fetched::read_stored(&stored.definition)?;
        let checked = self.check_best(&definition, Source::Api, fetched, None);
        let facts = checked.map_err(|faults| check::summary(&faults))?;
        let declared = DeclaredDefinition::of(&definition).map_err(|error| error.to_string())?;
        Ok(ToolRecord::new(&self.builder, declared, facts, made))
    }

    /// Creates the record of a stored tool that was checked before; `None` if it must be checked.
    fn checked_record(&self, stored: &StoredTool, made: Provenance) -> Option<ToolRecord> {
        if stored.checked.as_deref() != Some(&*checked::mark(&stored.definition)) {
            return None;
        }
        let outline = checked::outline(&stored.definition, &self.builder)?;
        let declared = DeclaredDefinition::stored(outline.name.as_str().into(), &stored.definition);
        Some(ToolRecord::stored(&self.builder, declared, outline, made))
    }

    /// Returns the published version of a tenant's stored tools, or `None` if the tenant is not loaded.
    #[must_use]
    pub fn version_of(&self, tenant: &Tenant) -> Option<i64> {
        self.layers().own.get(tenant)?.version
    }

    /// Returns a tenant's registered tool of this name. No other source shadows registered tools.
    #[must_use]
    pub fn registered(&self, tenant: &Tenant, name: &str) -> Option<Arc<ToolRecord>> {
        self.layers().own.get(tenant)?.api.get(name).cloned()
    }

    /// Returns the presets that a tenant has stored for a tool of this name.
    pub(super) fn stored_presets(
        &self,
        tenant: &Tenant,
        tool: &str,
    ) -> BTreeMap<String, toolpost_core::domain::Preset> {
        let layers = self.layers();
        layers.own.get(tenant).and_then(|own| own.overlays.get(tool)).cloned().unwrap_or_default()
    }
}
