//! The event bus from the journal to the subscribers of this process. Publishing never waits; slow subscribers are
//! disconnected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use uuid::Uuid;

use super::frame::{CommitFrames, FramedEvent};
use super::throttle::ReadThrottle;
use crate::store::journal::CommittedEvents;
use toolpost_core::domain::event::{Event, Stage};
use toolpost_core::domain::{Call, Cursor};

/// Maximum lag of a subscriber of all calls, in commits.
pub(super) const COMMITS_BEHIND: usize = 256;
/// Maximum size of the frames of large calls that are held for subscribers of all calls, in bytes.
const HEAVY_BEHIND: usize = 8 * 1024 * 1024;
/// Interval of looks at a call whose events are awaited.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum lag of a subscriber of one call, in events.
const EVENTS_BEHIND: usize = 256;

/// A handle to the event bus that is cheap to clone.
#[derive(Debug, Clone)]
pub struct Bus {
    /// Limits the cost of subscribers.
    pub throttle: ReadThrottle,
    /// What was published. The lock keeps the order of publications of several shards.
    published: Arc<Mutex<Arc<Cursor>>>,
    all: broadcast::Sender<Arc<CommitFrames>>,
    calls: Arc<Calls>,
    /// Notified when a subscriber comes.
    subscribed: Arc<Notify>,
    /// Changes when subscribers must look for events in the store that were not published.
    gaps: watch::Sender<u64>,
    /// Size of the frames of large calls that some subscriber of all calls has not received, in bytes.
    heavy: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Calls {
    readers: Mutex<HashMap<Uuid, Vec<mpsc::Sender<Arc<FramedEvent>>>>>,
    count: AtomicUsize,
    /// Number of subscribers that were disconnected because they were too slow.
    cut_off: AtomicU64,
}

/// A subscription to one or more calls, ended by dropping it. It is closed early if the subscriber is too slow.
#[derive(Debug)]
pub struct CallSubscription {
    /// The events of the calls in commit order.
    pub events: mpsc::Receiver<Arc<FramedEvent>>,
    ids: Arc<Mutex<Vec<Uuid>>>,
    calls: Arc<Calls>,
}

/// A handle that adds calls to a subscription.
#[derive(Debug)]
pub struct SubscriptionHandle {
    sender: mpsc::Sender<Arc<FramedEvent>>,
    ids: Arc<Mutex<Vec<Uuid>>>,
    calls: Arc<Calls>,
}

impl SubscriptionHandle {
    /// Adds all future events of this call.
    pub fn add(&self, id: Uuid) {
        let mut readers = self.calls.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed subscription has already removed its calls and would never remove this one.
        if !self.sender.is_closed() {
            ids.push(id);
            readers.entry(id).or_default().push(self.sender.clone());
        }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self {
            throttle: ReadThrottle::default(),
            published: Arc::default(),
            all: broadcast::Sender::new(COMMITS_BEHIND),
            calls: Arc::default(),
            subscribed: Arc::default(),
            gaps: watch::Sender::new(0),
            heavy: Arc::default(),
        }
    }
}

impl Bus {
    /// Sends the events of a commit to all subscribers. Costs almost nothing without subscribers.
    pub fn publish(&self, committed: &CommittedEvents) {
        self.publish_events(committed.first_pos, committed.last_pos, || committed.events());
    }

    /// Sends consecutive events of one shard to all subscribers; `events` is called only if there are any.
    pub fn publish_events(&self, first_pos: i64, last_pos: i64, events: impl FnOnce() -> Vec<Event>) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_watched() {
            self.send(CommitFrames::new(first_pos, last_pos, events(), published.clone()));
        }
        Arc::make_mut(&mut published).advance(last_pos);
    }

    /// Reads a call with `read` until `is_over` returns `true` for it: at once, after its events, and every second, because
    /// the events of other nodes may arrive late.
    ///
    /// # Errors
    /// Returns an error of `read`.
    pub async fn wait_until<E, F: Future<Output = Result<Call, E>>>(
        &self,
        id: Uuid,
        read: impl Fn() -> F,
        is_over: impl Fn(&Call) -> bool,
    ) -> Result<Call, E> {
        // Subscribing before the first look ensures that no event is missed.
        let mut reader = self.subscribe(vec![id]);
        loop {
            let call = read().await?;
            if is_over(&call) {
                return Ok(call);
            }
            let event = async {
                while let Some(FramedEvent { event, .. }) = reader.events.recv().await.as_deref() {
                    if event.stage == Stage::Result || !event.call.status.is_terminal() && is_over(&event.call) {
                        return;
                    }
                }
                // The subscription was disconnected; the periodic look continues.
                std::future::pending().await
            };
            tokio::select! {
                () = event => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// Returns `true` if there is a subscriber.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.calls.count.load(Ordering::Relaxed) > 0 || self.all.receiver_count() > 0
    }

    /// Waits until there is a subscriber.
    pub async fn watched(&self) {
        while !self.is_watched() {
            self.subscribed.notified().await;
        }
    }

    /// Makes all subscribers look for events in the store that were not published.
    pub fn resynchronize(&self) {
        self.gaps.send_modify(|gaps| *gaps += 1);
    }

    /// Returns a receiver that changes when events may not have been published.
    #[must_use]
    pub fn gaps(&self) -> watch::Receiver<u64> {
        self.gaps.subscribe()
    }

    /// Records that a new subscriber finds events up to here in the store.
    pub fn skip_to(&self, stored: &Cursor) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut published).merge(stored);
    }

    /// Returns what was published so far.
    #[must_use]
    pub fn published(&self) -> Arc<Cursor> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&self, chunk: CommitFrames) {
        let chunk = Arc::new(chunk);
        if self.calls.count.load(Ordering::Relaxed) > 0 {
            let mut readers = self.calls.readers.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &chunk.events {
                if let Some(senders) = readers.get_mut(&event.event.call.id) {
                    // Full or closed: dropping the sender closes the stream, and the subscriber resumes from the store.
                    senders.retain(|sender| {
                        let sent = sender.try_send(event.clone());
                        if matches!(sent, Err(TrySendError::Full(_))) {
                            self.count_disconnect();
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
            // Fails only without subscribers.
            let _ = self.all.send(chunk);
            return;
        }
        // The channel holds unreceived commits for slow subscribers. To bound the memory, it holds frames without their
        // calls, and above a limit only positions, whose events each subscriber reads from the store.
        let is_full = self.heavy.load(Ordering::Relaxed) > HEAVY_BEHIND;
        let chunk = if is_full { chunk.positions() } else { chunk.light().counted(self.heavy.clone()) };
        let _ = self.all.send(Arc::new(chunk));
    }

    /// Subscribes to all future commits.
    #[must_use]
    pub fn subscribe_all(&self) -> broadcast::Receiver<Arc<CommitFrames>> {
        let receiver = self.all.subscribe();
        self.subscribed.notify_one();
        receiver
    }

    /// Counts a subscriber that was disconnected because it was too slow.
    pub(super) fn count_disconnect(&self) {
        self.calls.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of subscribers that were disconnected because they were too slow.
    #[must_use]
    pub fn cut_off(&self) -> u64 {
        self.calls.cut_off.load(Ordering::Relaxed)
    }

    /// Returns the number of subscriptions to named calls.
    #[must_use]
    pub fn call_readers(&self) -> usize {
        self.calls.count.load(Ordering::Relaxed)
    }

    /// Returns the number of subscriptions to all calls.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.all.receiver_count()
    }

    /// Subscribes to all future events of these calls.
    #[must_use]
    pub fn subscribe(&self, ids: Vec<Uuid>) -> CallSubscription {
        let (reader, growing) = self.subscribe_growing(EVENTS_BEHIND + 8 * ids.len());
        ids.into_iter().for_each(|id| growing.add(id));
        reader
    }

    /// Subscribes to calls that are added later, with a maximum lag of `max_lag` events.
    #[must_use]
    pub fn subscribe_growing(&self, max_lag: usize) -> (CallSubscription, SubscriptionHandle) {
        let (sender, events) = mpsc::channel(max_lag);
        let (ids, calls) = (Arc::<Mutex<Vec<Uuid>>>::default(), self.calls.clone());
        self.calls.count.fetch_add(1, Ordering::Relaxed);
        self.subscribed.notify_one();
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
