//! Catalogs: the current snapshot of each tenant.
//!
//! The catalog of the default tenant always exists. The catalog of another tenant is created by its first request. It
//! is removed when it is unused and too many catalogs exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::Snapshot;
use toolpost_core::domain::Tenant;

/// Number of catalogs above which unused ones are removed.
const MAX_IDLE: usize = 256;

/// A handle to the current snapshot of one tenant.
#[derive(Debug)]
pub struct Catalog {
    tenant: Tenant,
    current: ArcSwap<Snapshot>,
}

impl Catalog {
    fn new(tenant: Tenant, current: Arc<Snapshot>) -> Self {
        Self { tenant, current: ArcSwap::new(current) }
    }

    /// Returns the tenant of the catalog.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns the current snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }
}

/// The catalogs of all loaded tenants.
#[derive(Debug)]
pub struct Catalogs {
    default: Arc<Catalog>,
    others: Mutex<HashMap<Tenant, Arc<Catalog>>>,
}

impl Default for Catalogs {
    fn default() -> Self {
        Self { default: Arc::new(Catalog::new(Tenant::default(), Arc::default())), others: Mutex::default() }
    }
}

impl Catalogs {
    fn others(&self) -> MutexGuard<'_, HashMap<Tenant, Arc<Catalog>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the catalog of a tenant, if it is loaded. A catalog that is held is never removed.
    #[must_use]
    pub fn get(&self, tenant: &Tenant) -> Option<Arc<Catalog>> {
        if tenant.is_default() { Some(self.default.clone()) } else { self.others().get(tenant).cloned() }
    }

    /// Returns the catalog of the default tenant.
    pub(super) fn default_catalog(&self) -> &Arc<Catalog> {
        &self.default
    }

    /// Publishes a snapshot in a tenant's catalog, or creates the catalog with it, so that a catalog is never empty.
    pub(super) fn publish(&self, tenant: &Tenant, snapshot: Arc<Snapshot>) -> Arc<Catalog> {
        let mut others = self.others();
        let catalog = if tenant.is_default() { Some(&self.default) } else { others.get(tenant) };
        if let Some(catalog) = catalog {
            catalog.current.store(snapshot);
            return catalog.clone();
        }
        let catalog = Arc::new(Catalog::new(tenant.clone(), snapshot));
        others.insert(tenant.clone(), catalog.clone());
        catalog
    }

    /// Removes unused catalogs if too many exist, and returns their tenants.
    pub(super) fn clear(&self) -> Vec<Tenant> {
        let mut others = self.others();
        if others.len() <= MAX_IDLE {
            return Vec::new();
        }
        let is_idle = |catalog: &Arc<Catalog>| Arc::strong_count(catalog) == 1;
        others.extract_if(|_, catalog| is_idle(catalog)).map(|(tenant, _)| tenant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_removes_only_unused_catalogs() {
        let catalogs = Catalogs::default();
        let tenant = |number: usize| Tenant::stored(&format!("t{number}"));
        let held = catalogs.publish(&tenant(0), Arc::default());
        (1..MAX_IDLE).for_each(|number| drop(catalogs.publish(&tenant(number), Arc::default())));
        assert!(catalogs.clear().is_empty(), "the maximum is not exceeded");
        let _ = catalogs.publish(&tenant(MAX_IDLE), Arc::default());
        assert_eq!(catalogs.clear().len(), MAX_IDLE);
        assert!(Arc::ptr_eq(&catalogs.get(&tenant(0)).unwrap(), &held) && catalogs.get(&tenant(1)).is_none());
        assert!(catalogs.get(&Tenant::default()).is_some());
    }
}
