//! A table of calls that a node has in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// Values of calls on this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallTable<T>(Arc<Mutex<HashMap<Uuid, T>>>);

/// The entry of a call in a table, removed when dropped.
#[derive(Debug)]
pub struct CallEntry<T> {
    table: CallTable<T>,
    id: Uuid,
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

impl<T> Drop for CallEntry<T> {
    fn drop(&mut self) {
        // The value is dropped after the lock is released.
        let _value = self.table.calls().remove(&self.id);
    }
}
