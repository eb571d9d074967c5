//! A caller together with the store and the tools of its tenant.

use std::sync::Arc;

use uuid::Uuid;

use crate::registry::{Catalog, Registry, Snapshot, View};
use toolpost_core::domain::{AllowList, Call, Caller, Session, Tenant};
use toolpost_store::store::{Store, StoreError, Stores};

/// The data that a request or a running call may use. Cheap to clone. Keeps the catalog of its tenant loaded.
#[derive(Debug, Clone)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    caller: Caller,
    store: Store,
    catalog: Arc<Catalog>,
}

impl Access {
    /// Opens the store and the catalog of a caller's tenant.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn open(caller: Caller, stores: &Stores, registry: &Registry) -> Result<Self, StoreError> {
        let store = stores.for_tenant(&caller.tenant);
        let catalog = registry.open(&store).await?;
        Ok(Self(Arc::new(Inner { caller, store, catalog })))
    }

    /// Returns the access of the operator: all tools of the default tenant.
    #[must_use]
    pub fn operator(stores: &Stores, registry: &Registry) -> Self {
        let store = stores.for_tenant(&Tenant::default());
        Self(Arc::new(Inner { caller: Caller::operator(), store, catalog: registry.default_catalog().clone() }))
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Returns the tenant of the caller.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.caller.tenant
    }

    /// Returns the store of the tenant.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the current tools of the tenant. A [`View`] selects the tools that the caller may use.
    #[must_use]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.0.catalog.snapshot()
    }

    /// Returns the allow-list of the caller; `None` allows all tools of the tenant.
    #[must_use]
    pub fn allowed(&self) -> Option<&AllowList> {
        self.0.caller.tools.as_deref()
    }

    /// Returns a call; `None` if it does not exist or the caller may not reach it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn call(&self, id: Uuid) -> Result<Option<Call>, StoreError> {
        Ok(self.0.store.call(id).await?.filter(|call| self.may_reach(call)))
    }

    /// Returns `true` if the caller may read the call and act on it: its tool is allowed, or it was made with the same
    /// allow-list. The latter covers calls of unknown tools, whose outcome the caller may see.
    #[must_use]
    pub fn may_reach(&self, call: &Call) -> bool {
        self.0.caller.may_have(&call.name) || call.allowed == self.0.caller.tools
    }

    /// Returns `false` if the call does not exist or the caller may not reach it. A caller without an allow-list always
    /// gets `true` without a query: the operation that follows finds out whether the call exists.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn may_reach_id(&self, id: Uuid) -> Result<bool, StoreError> {
        Ok(self.allowed().is_none() || self.call(id).await?.is_some())
    }

    /// Returns the tools that the caller sees, in a session or without one.
    #[must_use]
    pub fn view<'a>(&'a self, snapshot: &'a Snapshot, session: Option<&'a Session>) -> View<'a> {
        View::new(snapshot, session, self.allowed())
    }
}
