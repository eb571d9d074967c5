//! The calls that a worker runs, and when their leases are renewed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Maximum time between heartbeats, so that a cancellation arrives soon.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The running calls. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    calls: Mutex<HashMap<Uuid, Entry>>,
    added: Notify,
}

#[derive(Debug)]
struct Entry {
    attempt: u32,
    abandon: CancellationToken,
    interval: Duration,
    /// The time of the next heartbeat.
    due: Instant,
}

/// A running call. It is removed when this guard is dropped.
#[derive(Debug)]
pub(crate) struct RunningGuard {
    running: Running,
    id: Uuid,
    attempt: u32,
    /// Fires when the call is to be stopped without a result.
    pub(crate) abandon: CancellationToken,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut calls = self.running.calls();
        if calls.get(&self.id).is_some_and(|entry| entry.attempt == self.attempt) {
            calls.remove(&self.id);
        }
    }
}

impl Running {
    fn calls(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call. An earlier attempt of the call, which is lost then, is abandoned.
    pub(crate) fn add(&self, id: Uuid, attempt: u32, lease: Duration) -> RunningGuard {
        let abandon = CancellationToken::new();
        let interval = (lease / 3).min(MAX_INTERVAL);
        let entry = Entry { attempt, abandon: abandon.clone(), interval, due: Instant::now() + interval };
        if let Some(earlier) = self.calls().insert(id, entry) {
            earlier.abandon.cancel();
        }
        self.0.added.notify_one();
        RunningGuard { running: self.clone(), id, attempt, abandon }
    }

    /// Waits until a heartbeat is due, and returns the calls that it names.
    pub(crate) async fn due(&self) -> Vec<Uuid> {
        loop {
            let next = self.calls().values().map(|entry| entry.due).min();
            match next {
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(due) => {
                        let calls = self.renewed();
                        if !calls.is_empty() {
                            return calls;
                        }
                    }
                    () = self.0.added.notified() => {}
                },
                None => self.0.added.notified().await,
            }
        }
    }

    fn renewed(&self) -> Vec<Uuid> {
        let now = Instant::now();
        let mut calls = self.calls();
        calls.values_mut().for_each(|entry| entry.due = now + entry.interval);
        calls.keys().copied().collect()
    }

    /// Stops a call without a result.
    pub(crate) fn abandon(&self, id: &Uuid) -> bool {
        let abandoned = self.calls().get(id).map(|entry| entry.abandon.cancel());
        abandoned.is_some()
    }

    /// Stops all calls without a result.
    pub(crate) fn abandon_all(&self) {
        self.calls().values().for_each(|entry| entry.abandon.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    #[tokio::test(start_paused = true)]
    async fn heartbeats_follow_the_shortest_lease() {
        let running = Running::default();
        let start = Instant::now();
        let _slow = running.add(ID, 1, Duration::from_secs(30));
        assert_eq!((running.due().await, start.elapsed().as_secs()), (vec![ID], 5));
        let fast = running.add(OTHER, 1, Duration::from_secs(3));
        let mut calls = running.due().await;
        calls.sort();
        assert_eq!((calls, start.elapsed().as_secs()), (vec![ID, OTHER], 6));
        drop(fast);
        assert_eq!((running.due().await, start.elapsed().as_secs()), (vec![ID], 11));
    }

    #[tokio::test]
    async fn new_attempt_replaces_the_earlier_one() {
        let running = Running::default();
        let first = running.add(ID, 1, Duration::from_secs(30));
        let second = running.add(ID, 2, Duration::from_secs(30));
        assert!(first.abandon.is_cancelled());
        drop(first);
        assert!(running.abandon(&ID) && second.abandon.is_cancelled());
        drop(second);
        assert!(!running.abandon(&ID));
    }
}
