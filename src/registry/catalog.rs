//! What each tenant is shown: the tools of the server, and over them the tenant's own.
//!
//! The default tenant's shelf is always there. Another one is there from the first request of its tenant on, and is cleared
//! when nobody holds it any more and there are too many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::Snapshot;
use crate::domain::Tenant;

/// Most shelves that are kept although nobody holds them.
const MOST_IDLE: usize = 256;

/// What is shown to one tenant, to be looked at later.
#[derive(Debug)]
pub struct Catalog {
    tenant: Tenant,
    shown: ArcSwap<Snapshot>,
}

impl Catalog {
    fn new(tenant: Tenant, shown: Arc<Snapshot>) -> Self {
        Self { tenant, shown: ArcSwap::new(shown) }
    }

    /// Whose it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// What there is now.
    #[must_use]
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.shown.load()
    }
}

/// All shelves of a registry.
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

    /// A tenant's shelf, if it is there. As long as it is held it stays.
    #[must_use]
    pub fn of(&self, tenant: &Tenant) -> Option<Arc<Catalog>> {
        if tenant.is_default() { Some(self.default.clone()) } else { self.others().get(tenant).cloned() }
    }

    /// The default tenant's.
    pub(super) fn default_shelf(&self) -> &Arc<Catalog> {
        &self.default
    }

    /// Shows this on a tenant's shelf, which is made if it is not there: nobody finds an empty one.
    pub(super) fn publish(&self, tenant: &Tenant, snapshot: Arc<Snapshot>) -> Arc<Catalog> {
        let mut others = self.others();
        let shelf = if tenant.is_default() { Some(&self.default) } else { others.get(tenant) };
        if let Some(shelf) = shelf {
            shelf.shown.store(snapshot);
            return shelf.clone();
        }
        let shelf = Arc::new(Catalog::new(tenant.clone(), snapshot));
        others.insert(tenant.clone(), shelf.clone());
        shelf
    }

    /// Clears the shelves that nobody holds, where there are too many. Whose they were.
    pub(super) fn clear(&self) -> Vec<Tenant> {
        let mut others = self.others();
        if others.len() <= MOST_IDLE {
            return Vec::new();
        }
        let is_idle = |shelf: &Arc<Catalog>| Arc::strong_count(shelf) == 1;
        others.extract_if(|_, shelf| is_idle(shelf)).map(|(tenant, _)| tenant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_shelves_are_cleared_but_not_those_that_somebody_holds() {
        let shelves = Catalogs::default();
        let tenant = |number: usize| Tenant::stored(&format!("t{number}"));
        let held = shelves.publish(&tenant(0), Arc::default());
        (1..MOST_IDLE).for_each(|number| drop(shelves.publish(&tenant(number), Arc::default())));
        assert!(shelves.clear().is_empty(), "there are not too many");
        let _ = shelves.publish(&tenant(MOST_IDLE), Arc::default());
        assert_eq!(shelves.clear().len(), MOST_IDLE);
        assert!(Arc::ptr_eq(&shelves.of(&tenant(0)).unwrap(), &held) && shelves.of(&tenant(1)).is_none());
        assert!(shelves.of(&Tenant::default()).is_some());
    }
}
