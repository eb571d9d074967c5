//! A caller with all that there is for them: the store of their tenant, and its tools. Whoever has none has nothing to read.

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::{AllowList, Call, Caller, Session, Tenant};
use crate::registry::{Catalog, Registry, Snapshot, View};
use crate::store::{Store, StoreError, Stores};

/// What a request, or a call that goes on, may see. Cheap to clone. As long as it is held, its tenant's tools stay at hand.
#[derive(Debug, Clone)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    caller: Caller,
    store: Store,
    shelf: Arc<Catalog>,
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

    /// Returns a call of theirs; `None` where no call of one of their tools has this id.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn call(&self, id: Uuid) -> Result<Option<Call>, StoreError> {
        Ok(self.0.store.call(id).await?.filter(|call| self.may_reach(call)))
    }

    /// Returns `true` if they may read a call and act on it. A call that was made with the same allow-list is theirs, too, if
    /// its tool is none of theirs: then it is unknown, and the answer says so.
    #[must_use]
    pub fn may_reach(&self, call: &Call) -> bool {
        self.0.caller.may_have(&call.name) || call.allowed == self.0.caller.tools
    }

    /// Returns `false` if an id stands for a call that they may not reach, or for none. Costs nothing where they have all
    /// tools: whether there is such a call is then found out by whatever is done with it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn may_reach_id(&self, id: Uuid) -> Result<bool, StoreError> {
        Ok(self.allowed().is_none() || self.call(id).await?.is_some())
    }

    /// The tools as they see them in a session, or outside of any.
    #[must_use]
    pub fn view<'a>(&'a self, snapshot: &'a Snapshot, session: Option<&'a Session>) -> View<'a> {
        View::new(snapshot, session, self.allowed())
    }
}
