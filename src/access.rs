//! A caller with all that there is for them: the store of their tenant, and its tools. Whoever has none has nothing to read.

use std::sync::Arc;

use crate::domain::{AllowList, Caller, Session, Tenant};
use crate::registry::{Registry, Shelf, Snapshot, View};
use crate::store::{Store, StoreError, Stores};

/// What a request, or a call that goes on, may see. Cheap to clone. As long as it is held, its tenant's tools stay at hand.
#[derive(Debug, Clone)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    caller: Caller,
    store: Store,
    shelf: Arc<Shelf>,
}

impl Access {
    /// Opens what there is for a caller.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn open(caller: Caller, stores: &Stores, registry: &Registry) -> Result<Self, StoreError> {
        let store = stores.of(&caller.tenant);
        let shelf = registry.open(&store).await?;
        Ok(Self(Arc::new(Inner { caller, store, shelf })))
    }

    /// The operator's own: the default tenant's, and everything is allowed.
    #[must_use]
    pub fn operator(stores: &Stores, registry: &Registry) -> Self {
        let store = stores.of(&Tenant::default());
        Self(Arc::new(Inner { caller: Caller::operator(), store, shelf: registry.default_shelf().clone() }))
    }

    /// Who asks.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Whose everything is that they see.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.caller.tenant
    }

    /// What their tenant has.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The tools of their tenant as they are now. Which of them there are for the caller a [`View`] says.
    #[must_use]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.0.shelf.snapshot()
    }

    /// The tools that there are for them; `None`: all of their tenant.
    #[must_use]
    pub fn allowed(&self) -> Option<&AllowList> {
        self.0.caller.tools.as_deref()
    }

    /// The tools as they see them in a session, or outside of any.
    #[must_use]
    pub fn view<'a>(&'a self, snapshot: &'a Snapshot, session: Option<&'a Session>) -> View<'a> {
        View::new(snapshot, session, self.allowed())
    }
}
