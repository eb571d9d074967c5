//! The reachable calls of this node: calls that can be cancelled and reported on while they wait or run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::argument_stream::ArgumentStream;
use crate::domain::Tenant;
use crate::executor::{Emitter, ResultSlot};

/// A handle to a reachable call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallHandle {
    /// The tenant of the call.
    pub tenant: Tenant,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Receives the reports of the tool.
    pub emitter: Emitter,
    /// Receives a posted result.
    pub outside: ResultSlot,
    /// The argument stream, if the arguments are streamed.
    pub draft: Option<ArgumentStream>,
    /// `true` if a token was sent to the tool. Reports then require the token.
    pub has_token: bool,
    /// `true` if the call may accept a posted result.
    pub may_be_outside: bool,
}

/// All reachable calls of this node. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveCalls(Arc<Mutex<HashMap<Uuid, CallHandle>>>);

/// The registration of a reachable call, removed when dropped.
#[derive(Debug)]
pub struct Registration {
    live: LiveCalls,
    id: Uuid,
}

impl LiveCalls {
    fn calls(&self) -> MutexGuard<'_, HashMap<Uuid, CallHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call reachable. Must precede any message that shows the call's id to a client.
    #[must_use]
    pub fn enter(&self, id: Uuid, handle: CallHandle) -> Registration {
        self.calls().insert(id, handle);
        Registration { live: self.clone(), id }
    }

    /// Returns the ids of all reachable calls.
    #[must_use]
    pub fn ids(&self) -> Vec<Uuid> {
        self.calls().keys().copied().collect()
    }

    /// Returns the handle to a tenant's call, if it is reachable on this node.
    #[must_use]
    pub fn of(&self, tenant: &Tenant, id: Uuid) -> Option<CallHandle> {
        self.get(id).filter(|handle| handle.tenant == *tenant)
    }

    /// Returns the handle to a call of any tenant, if it is reachable on this node.
    #[must_use]
    pub fn get(&self, id: Uuid) -> Option<CallHandle> {
        self.calls().get(&id).cloned()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let gone = self.live.calls().remove(&self.id);
        // Drop the handle after the lock is released.
        drop(gone);
    }
}
