//! The workers that this node has seen. They are stored in the background, many with one statement, so that an idle worker
//! costs no statement of its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use toolpost_store::store::workers::SeenWorker;
use toolpost_store::store::{StoreError, Stores};

/// How long a worker stays listed after its last request, unless it offers tools, in milliseconds: one day.
pub(crate) const FORGET_MS: u64 = 24 * 60 * 60 * 1000;
/// How long this node remembers that it has stored a worker.
const REMEMBER: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct State {
    seen: SeenWorker,
    at: Instant,
    is_stored: bool,
}

type Key = (toolpost_core::domain::Tenant, std::sync::Arc<str>, std::sync::Arc<str>);

/// The workers that this node has seen.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    workers: Mutex<HashMap<Key, State>>,
    has_new: Notify,
}

impl Presence {
    fn workers(&self) -> MutexGuard<'_, HashMap<Key, State>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a worker was seen now.
    pub fn see(&self, seen: SeenWorker) {
        if self.insert(seen) {
            self.has_new.notify_one();
        }
    }

    /// Records that workers still wait.
    pub fn see_waiting(&self, waiting: Vec<SeenWorker>) {
        for seen in waiting {
            self.insert(seen);
        }
    }

    /// Returns `true` if the worker is new.
    fn insert(&self, seen: SeenWorker) -> bool {
        let key = (seen.tenant.clone(), seen.queue.clone(), seen.worker.clone());
        let mut workers = self.workers();
        let known = workers.get(&key).map(|state| state.seen.sdk.clone());
        let sdk = seen.sdk.clone().or_else(|| known.clone().flatten());
        let is_new = known.is_none_or(|known| known != sdk);
        workers.insert(key, State { seen: SeenWorker { sdk, ..seen }, at: Instant::now(), is_stored: false });
        is_new
    }

    /// Waits until a worker is new.
    pub async fn has_new(&self) {
        self.has_new.notified().await;
    }

    /// Stores the workers that were seen since the last time.
    pub async fn note(&self, stores: &Stores) -> Result<(), StoreError> {
        let changed: Vec<SeenWorker> = {
            let mut workers = self.workers();
            workers.retain(|_, state| !state.is_stored || state.at.elapsed() < REMEMBER);
            let changed = workers.values_mut().filter(|state| !state.is_stored);
            changed.map(|state| (state.is_stored, state.seen.clone()).1).collect()
        };
        if changed.is_empty() {
            return Ok(());
        }
        let before = Instant::now();
        stores.note_workers(&changed).await?;
        for SeenWorker { tenant, queue, worker, .. } in changed {
            if let Some(state) = self.workers().get_mut(&(tenant, queue, worker)).filter(|state| state.at <= before) {
                state.is_stored = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolpost_core::domain::Tenant;

    fn seen(worker: &str, sdk: Option<&str>) -> SeenWorker {
        SeenWorker { tenant: Tenant::default(), queue: "q".into(), worker: worker.into(), sdk: sdk.map(Into::into) }
    }

    #[tokio::test]
    async fn seen_workers_are_stored_together() {
        let (stores, presence) = (Stores::open("sqlite::memory:").await.unwrap(), Presence::default());
        presence.see(seen("a", Some("sdk/1")));
        presence.see(seen("b", None));
        presence.see_waiting(vec![seen("a", None)]);
        presence.note(&stores).await.unwrap();
        let stored = stores.workers(&Tenant::default()).await.unwrap();
        let stored: Vec<_> = stored.into_iter().map(|row| (row.worker, row.sdk)).collect();
        assert_eq!(stored, [("a".to_owned(), Some("sdk/1".to_owned())), ("b".to_owned(), None)]);
        assert!(presence.workers().values().all(|state| state.is_stored));
    }

    #[test]
    fn only_a_change_is_new() {
        let presence = Presence::default();
        assert!(presence.insert(seen("a", None)));
        assert!(!presence.insert(seen("a", None)));
        assert!(presence.insert(seen("a", Some("sdk/1"))));
        assert!(!presence.insert(seen("a", None)));
    }
}
