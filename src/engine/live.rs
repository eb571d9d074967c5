//! The reachable calls of this node: calls that can be cancelled and reported on while they wait or run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::argument_stream::ArgumentStream;
use crate::domain::Tenant;
use crate::executor::{Emitter, ResultSlot};
use crate::registry::Entry;

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
    /// Notified when the approval of the call changes; `None` if the call waits for none.
    pub decided: Option<Arc<Notify>>,
    /// The argument stream, if the arguments are streamed.
    pub draft: Option<ArgumentStream>,
    /// `true` if a token was sent to the tool. Reports then require the token.
    pub has_token: bool,
    /// `true` if the call may accept a posted result.
    pub may_be_outside: bool,
    /// `true` if another node has adopted the call. Its run ends here without a result.
    pub is_taken_over: bool,
}

/// All reachable calls of this node.
pub type LiveCalls = CallTable<CallHandle>;

/// Values of calls on this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallTable<T>(Arc<Mutex<HashMap<Uuid, T>>>);

/// The entry of a call in a table, removed when dropped.
#[derive(Debug)]
pub struct CallEntry<T> {
    table: CallTable<T>,
    id: Uuid,
}

/// Returns `true` if calls of the tool may end with a posted result.
pub(super) fn accepts_posted_result(entry: &Entry) -> bool {
    entry.works_outside() || entry.definition.has_token()
}

impl<T> Default for CallTable<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> CallTable<T> {
    /// Locks the table.
    pub fn calls(&self) -> MutexGuard<'_, HashMap<Uuid, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a call until the returned value is dropped.
    pub fn enter(&self, id: Uuid, value: T) -> CallEntry<T> {
        self.calls().insert(id, value);
        CallEntry { table: Self(self.0.clone()), id }
    }
}

impl LiveCalls {
    /// Returns the handle to a tenant's call, if it is reachable on this node.
    pub fn of(&self, tenant: &Tenant, id: Uuid) -> Option<CallHandle> {
        self.get(id).filter(|handle| handle.tenant == *tenant)
    }

    /// Ends the run of a call that another node has adopted. Returns `false` if the call does not run here.
    pub fn leave_to_adopter(&self, id: Uuid) -> bool {
        let cancel = self.calls().get_mut(&id).map(|handle| {
            handle.is_taken_over = true;
            handle.cancel.clone()
        });
        cancel.inspect(CancellationToken::cancel).is_some()
    }

    /// Returns the handle to a call of any tenant, if it is reachable on this node.
    pub fn get(&self, id: Uuid) -> Option<CallHandle> {
        self.calls().get(&id).cloned()
    }
}

impl<T> Drop for CallEntry<T> {
    fn drop(&mut self) {
        // The value is dropped after the lock is released.
        let _value = self.table.calls().remove(&self.id);
    }
}
