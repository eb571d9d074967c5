//! Writes the offers of this node. The offers that come while one transaction runs share the next one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use toolpost_core::fault::{self, Point};
use toolpost_store::store::workers::{Offer, StoredOffer};
use toolpost_store::store::{StoreError, Stores};

/// Maximum number of offers of one transaction. A statement on SQLite has at most 32,766 parameters.
const MAX_OFFERS: usize = 256;
/// Scheduler turns for which a transaction waits for further offers. Calls that were accepted together offer together.
const YIELDS: usize = 4;
/// How long deletions wait for an offer whose transaction they share. No offer waits for a transaction that only deletes.
const LINGER: Duration = Duration::from_millis(20);
/// Pause after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// An error returned when an offer was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the offer was not stored")]
pub struct NotStored;

/// The stored offer; `None` if the call has ended or another node owns it.
type Reply = oneshot::Sender<Option<StoredOffer>>;

/// The changes that wait for a transaction.
#[derive(Debug, Default)]
struct Waiting {
    offers: HashMap<Uuid, (Offer, Reply)>,
    ended: Vec<Uuid>,
    /// The calls whose offers are being written.
    in_progress: Vec<Uuid>,
    /// Whether a task writes.
    is_writing: bool,
}

#[derive(Debug)]
struct Shared {
    stores: Stores,
    node: Arc<str>,
    tasks: TaskTracker,
    waiting: Mutex<Waiting>,
    /// Notified of each offer.
    offered: Notify,
    /// Notified after each transaction.
    written: Notify,
}

/// The writer of the offers of this node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OfferWriter(Arc<Shared>);

impl OfferWriter {
    /// Creates the writer of a node. Its tasks belong to `tasks`.
    pub fn new(stores: Stores, node: Arc<str>, tasks: TaskTracker) -> Self {
        let (waiting, offered, written) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { stores, node, tasks, waiting, offered, written }))
    }

    /// Offers an attempt of a call, unless it or a later one is offered. Returns the stored offer after its commit; `None`
    /// if the call has ended or another node owns it.
    ///
    /// # Errors
    /// Returns [`NotStored`] if the database fails.
    pub async fn offer(&self, offer: Offer) -> Result<Option<StoredOffer>, NotStored> {
        let (reply, stored) = oneshot::channel();
        self.add(|waiting| drop(waiting.offers.insert(offer.call, (offer, reply))));
        self.0.offered.notify_waiters();
        stored.await.map_err(|_| NotStored)
    }

    /// Forgets an offer that is not stored. Returns once the offer is either stored or will never be.
    pub async fn forget(&self, call: Uuid) {
        loop {
            let written = self.0.written.notified();
            {
                let mut waiting = self.waiting();
                waiting.offers.remove(&call);
                if !waiting.in_progress.contains(&call) {
                    return;
                }
            }
            written.await;
        }
    }

    /// Deletes the offer of a call of this node that has ended, soon. What a shutdown leaves is deleted later.
    pub fn delete(&self, call: Uuid) {
        self.add(|waiting| waiting.ended.push(call));
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting();
        change(&mut waiting);
        if !std::mem::replace(&mut waiting.is_writing, true) {
            // A task of its own, because a caller that leaves must not take the offers of others with it.
            self.0.tasks.spawn(self.clone().write_all());
        }
    }

    /// Writes until nothing waits.
    async fn write_all(self) {
        loop {
            let offered = self.0.offered.notified();
            if self.has_only_deletions() {
                let _ = tokio::time::timeout(LINGER, offered).await;
            }
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            let (offers, ended) = {
                let mut waiting = self.waiting();
                let mut calls: Vec<Uuid> = waiting.offers.keys().copied().collect();
                // The oldest first.
                calls.sort_unstable();
                calls.truncate(MAX_OFFERS);
                let offers: Vec<_> = calls.iter().filter_map(|call| waiting.offers.remove(call)).collect();
                let kept = waiting.ended.len().saturating_sub(MAX_OFFERS);
                let ended = waiting.ended.split_off(kept);
                if offers.is_empty() && ended.is_empty() {
                    waiting.is_writing = false;
                    return;
                }
                waiting.in_progress = calls;
                (offers, ended)
            };
            let written = self.write(offers, &ended).await;
            self.waiting().in_progress.clear();
            self.0.written.notify_waiters();
            if let Err(error) = written {
                tracing::debug!(%error, "cannot write offers");
                if !self.0.tasks.is_closed() {
                    self.waiting().ended.extend(ended);
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    fn has_only_deletions(&self) -> bool {
        let waiting = self.waiting();
        waiting.offers.is_empty() && (1..MAX_OFFERS).contains(&waiting.ended.len()) && !self.0.tasks.is_closed()
    }

    /// Writes one transaction.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. The calls offer again.
    async fn write(&self, offers: Vec<(Offer, Reply)>, ended: &[Uuid]) -> Result<(), StoreError> {
        let Shared { stores, node, .. } = &*self.0;
        let (offers, replies): (Vec<Offer>, Vec<Reply>) = offers.into_iter().unzip();
        if !offers.is_empty() {
            fault::pass(Point::BeforeOffer);
        }
        let stored = stores.write_offers(node, ended, &offers).await?;
        if !offers.is_empty() {
            fault::pass(Point::AfterOffer);
        }
        let queues: HashSet<_> = offers.iter().map(|offer| (&offer.tenant, &offer.queue)).collect();
        for (tenant, queue) in queues {
            stores.signals().notify_work(tenant, queue);
        }
        for (offer, reply) in offers.iter().zip(replies) {
            // The call may have been interrupted.
            let _ = reply.send(stored.get(&offer.call).copied());
        }
        Ok(())
    }
}
