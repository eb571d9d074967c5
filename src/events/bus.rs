//! From the journal to whoever watches in this process. Nothing here waits: a reader that is behind is told so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{broadcast, mpsc};
use uuid::Uuid;

use super::frame::{CommitFrames, FramedEvent};
use super::throttle::ReadThrottle;
use crate::store::journal::Committed;

/// Commits that a reader of everything may be behind before it is cut off.
pub(super) const COMMITS_BEHIND: usize = 256;
/// Bytes of frames of large calls that wait for readers of everything.
const HEAVY_BEHIND: usize = 8 * 1024 * 1024;
/// Events that a reader of one call may be behind before it is cut off.
const EVENTS_BEHIND: usize = 256;

/// Carries what was committed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bus {
    /// What watching may cost.
    pub pace: ReadThrottle,
    all: broadcast::Sender<Arc<CommitFrames>>,
    calls: Arc<Calls>,
    /// Bytes of frames of large calls that readers of everything were not all sent yet.
    heavy: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Calls {
    readers: Mutex<HashMap<Uuid, Vec<mpsc::Sender<Arc<FramedEvent>>>>>,
    count: AtomicUsize,
    /// Readers, of calls or of everything, that were too slow.
    cut_off: AtomicU64,
}

/// A subscription to one call or several; ends by being dropped. Closed before the end: it was too slow.
#[derive(Debug)]
pub struct CallSubscription {
    /// The calls' events in commit order.
    pub events: mpsc::Receiver<Arc<FramedEvent>>,
    ids: Arc<Mutex<Vec<Uuid>>>,
    calls: Arc<Calls>,
}

/// Adds calls to a subscription.
#[derive(Debug)]
pub struct SubscriptionHandle {
    sender: mpsc::Sender<Arc<FramedEvent>>,
    ids: Arc<Mutex<Vec<Uuid>>>,
    calls: Arc<Calls>,
}

impl SubscriptionHandle {
    /// All events of this call from now on, too.
    pub fn add(&self, id: Uuid) {
        let mut readers = self.calls.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that has gone has left nobody to clean up behind.
        if !self.sender.is_closed() {
            ids.push(id);
            readers.entry(id).or_default().push(self.sender.clone());
        }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self {
            pace: ReadThrottle::default(),
            all: broadcast::Sender::new(COMMITS_BEHIND),
            calls: Arc::default(),
            heavy: Arc::default(),
        }
    }
}

impl Bus {
    /// Tells everyone. Costs next to nothing while nobody watches.
    pub fn publish(&self, committed: &Committed) {
        let to_calls = self.calls.count.load(Ordering::Relaxed) > 0;
        if !to_calls && self.all.receiver_count() == 0 {
            return;
        }
        let chunk = Arc::new(CommitFrames::from(committed));
        if to_calls {
            let mut readers = self.calls.readers.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &chunk.events {
                if let Some(senders) = readers.get_mut(&event.event.call.id) {
                    // Full or gone: dropping the sender closes the stream, and its reader resumes from the store.
                    senders.retain(|sender| {
                        let sent = sender.try_send(event.clone());
                        if matches!(sent, Err(TrySendError::Full(_))) {
                            self.note_cut_off();
                        }
                        sent.is_ok()
                    });
                }
            }
        }
        if self.all.receiver_count() == 0 {
            return;
        }
        if !chunk.is_heavy() {
            // Fails when nobody watches everything.
            let _ = self.all.send(chunk);
            return;
        }
        // A reader that is behind keeps what it has not received. So it gets frames without their calls, and beyond a number
        // of bytes only positions, whose events every reader reads from the store.
        let is_full = self.heavy.load(Ordering::Relaxed) > HEAVY_BEHIND;
        let chunk = if is_full { chunk.positions() } else { chunk.light().counted(self.heavy.clone()) };
        let _ = self.all.send(Arc::new(chunk));
    }

    /// All commits from now on.
    #[must_use]
    pub fn subscribe_all(&self) -> broadcast::Receiver<Arc<CommitFrames>> {
        self.all.subscribe()
    }

    /// A reader was too slow and is sent away.
    pub(super) fn note_cut_off(&self) {
        self.calls.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    #[must_use]
    pub fn cut_off(&self) -> u64 {
        self.calls.cut_off.load(Ordering::Relaxed)
    }

    /// How many read the events of calls that they name.
    #[must_use]
    pub fn call_readers(&self) -> usize {
        self.calls.count.load(Ordering::Relaxed)
    }

    /// How many read everything.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.all.receiver_count()
    }

    /// All events of these calls from now on.
    #[must_use]
    pub fn subscribe(&self, ids: Vec<Uuid>) -> CallSubscription {
        let (reader, growing) = self.subscribe_growing(EVENTS_BEHIND + 8 * ids.len());
        ids.into_iter().for_each(|id| growing.add(id));
        reader
    }

    /// All events of calls that are still to be named. So many may be behind.
    #[must_use]
    pub fn subscribe_growing(&self, behind: usize) -> (CallSubscription, SubscriptionHandle) {
        let (sender, events) = mpsc::channel(behind);
        let (ids, calls) = (Arc::<Mutex<Vec<Uuid>>>::default(), self.calls.clone());
        self.calls.count.fetch_add(1, Ordering::Relaxed);
        let growing = SubscriptionHandle { sender, ids: ids.clone(), calls: calls.clone() };
        (CallSubscription { events, ids, calls }, growing)
    }
}

impl Drop for CallSubscription {
    fn drop(&mut self) {
        self.events.close();
        let mut readers = self.calls.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids.iter() {
            if let Some(senders) = readers.get_mut(id) {
                senders.retain(|sender| !sender.is_closed());
                if senders.is_empty() {
                    readers.remove(id);
                }
            }
        }
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
    }
}
