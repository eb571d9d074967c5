//! The calls of this node that can be reached from outside while they wait or run: to be cancelled, or to be reported on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::argument_stream::ArgumentStream;
use crate::domain::Tenant;
use crate::executor::{Emitter, ResultSlot};

/// The way to one call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallHandle {
    /// Whose it is.
    pub tenant: Tenant,
    /// Fires when somebody wants the call to end.
    pub cancel: CancellationToken,
    /// Where its tool reports.
    pub emitter: Emitter,
    /// Where its result may be posted.
    pub outside: ResultSlot,
    /// Where its arguments come piece by piece, if they do.
    pub draft: Option<ArgumentStream>,
    /// Whether its tool was sent a token: then only that speaks for it.
    pub has_token: bool,
    /// Whether its work may be done outside.
    pub may_be_outside: bool,
}

/// All calls that were told of. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveCalls(Arc<Mutex<HashMap<Uuid, CallHandle>>>);

/// A call that can be reached. Dropped, it cannot any more.
#[derive(Debug)]
pub struct Registration {
    live: LiveCalls,
    id: Uuid,
}

impl LiveCalls {
    fn calls(&self) -> MutexGuard<'_, HashMap<Uuid, CallHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the call can be reached. This comes before anybody can know its id.
    #[must_use]
    pub fn enter(&self, id: Uuid, handle: CallHandle) -> Registration {
        self.calls().insert(id, handle);
        Registration { live: self.clone(), id }
    }

    /// The calls that can be reached.
    #[must_use]
    pub fn ids(&self) -> Vec<Uuid> {
        self.calls().keys().copied().collect()
    }

    /// The way to a tenant's call of this node that has not ended.
    #[must_use]
    pub fn of(&self, tenant: &Tenant, id: Uuid) -> Option<CallHandle> {
        self.get(id).filter(|handle| handle.tenant == *tenant)
    }

    /// The way to a call of this node that has not ended, whosever it is.
    #[must_use]
    pub fn get(&self, id: Uuid) -> Option<CallHandle> {
        self.calls().get(&id).cloned()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let gone = self.live.calls().remove(&self.id);
        // Its parts are freed outside of the lock.
        drop(gone);
    }
}
