//! Writes the offers of this node. The offers that come while one transaction runs share the next one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::claims::ClaimedCall;
use super::early_claims::EarlyClaims;
use super::handover::{Direct, Handover};
use super::offers::OfferedCall;
use toolpost_core::fault::{self, Point};
use toolpost_store::store::signals::{Hint, QueueKey};
use toolpost_store::store::workers::{Claim, Offer, StoredOffer};

/// Maximum number of offers of one transaction. A statement on SQLite has at most 32,766 parameters.
const MOST: usize = 256;
/// Scheduler turns for which a transaction waits for further offers. Calls that were accepted together offer together.
const TURNS: usize = 4;
/// How long deletions wait for an offer whose transaction they share. No offer waits for a transaction that only deletes.
const LINGER: Duration = Duration::from_millis(20);
/// Pause after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// An error returned when an offer was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the offer was not stored")]
pub(super) struct NotStored;

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

/// A claim that a failed write may have stored, with its time once it is known.
#[derive(Debug)]
struct LostClaim {
    claim: Claim,
    claimed_at: Option<i64>,
}

#[derive(Debug)]
struct Shared {
    handover: Handover,
    early_claims: EarlyClaims,
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
pub(super) struct OfferWriter(Arc<Shared>);

impl OfferWriter {
    /// Creates the writer of a node. Its tasks belong to `tasks`.
    pub fn new(handover: Handover, node: Arc<str>, tasks: TaskTracker) -> Self {
        let (waiting, offered, written) = (Mutex::default(), Notify::new(), Notify::new());
        let early_claims = EarlyClaims::new(handover.clone(), tasks.clone());
        Self(Arc::new(Shared { handover, early_claims, node, tasks, waiting, offered, written }))
    }

    /// Returns the handover of calls to workers.
    pub fn handover(&self) -> &Handover {
        &self.0.handover
    }

    /// Returns the claims with which calls are accepted.
    pub fn early_claims(&self) -> &EarlyClaims {
        &self.0.early_claims
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
        // Claims that a failed write may have stored, and whose workers know nothing of them.
        let mut lost: Vec<LostClaim> = Vec::new();
        loop {
            self.take_back(&mut lost).await;
            if !lost.is_empty() && !self.0.tasks.is_closed() {
                // A call that is offered and claimed meanwhile would lose its claim to the next try, and run twice.
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            }
            let offered = self.0.offered.notified();
            if self.has_only_deletions() {
                let _ = tokio::time::timeout(LINGER, offered).await;
            }
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            // A call that is offered and claimed in one commit costs less than one that waits for a second one.
            self.0.handover.claims.await_claims(|| self.queues()).await;
            let (offers, ended) = {
                let mut waiting = self.waiting();
                let mut calls: Vec<Uuid> = waiting.offers.keys().copied().collect();
                // The oldest first.
                calls.sort_unstable();
                calls.truncate(MOST);
                let offers: Vec<_> = calls.iter().filter_map(|call| waiting.offers.remove(call)).collect();
                let kept = waiting.ended.len().saturating_sub(MOST);
                let ended = waiting.ended.split_off(kept);
                if offers.is_empty() && ended.is_empty() && (lost.is_empty() || self.0.tasks.is_closed()) {
                    waiting.is_writing = false;
                    return;
                }
                waiting.in_progress = calls;
                (offers, ended)
            };
            let written = self.write(offers, &ended).await;
            self.waiting().in_progress.clear();
            self.0.written.notify_waiters();
            if let Err(claims) = written
                && !self.0.tasks.is_closed()
            {
                lost.extend(claims.into_iter().map(|claim| LostClaim { claim, claimed_at: None }));
                self.waiting().ended.extend(ended);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Returns the queues of waiting offers, or nothing if one was offered before.
    fn queues(&self) -> Vec<QueueKey> {
        let waiting = self.waiting();
        let offers = || waiting.offers.values().map(|(offer, _)| offer);
        if !offers().all(|offer| offer.is_first) {
            return Vec::new();
        }
        let queues: HashSet<_> = offers().map(|offer| (offer.tenant.clone(), offer.queue.clone())).collect();
        queues.into_iter().collect()
    }

    fn has_only_deletions(&self) -> bool {
        let waiting = self.waiting();
        waiting.offers.is_empty() && (1..MOST).contains(&waiting.ended.len()) && !self.0.tasks.is_closed()
    }

    /// Takes back claims. The list keeps the failed ones.
    async fn take_back(&self, lost: &mut Vec<LostClaim>) {
        for mut one in std::mem::take(lost) {
            match self.0.handover.take_back(&one.claim, &mut one.claimed_at).await {
                true => self.0.handover.claims.note_work(&Hint::Any),
                false => lost.push(one),
            }
        }
    }

    /// Writes one transaction.
    ///
    /// # Errors
    /// Returns the claims that may be stored if the database fails. The calls offer again.
    async fn write(&self, offers: Vec<(Offer, Reply)>, ended: &[Uuid]) -> Result<(), Vec<Claim>> {
        let Shared { handover, node, .. } = &*self.0;
        let (mut offers, replies): (Vec<Offer>, Vec<Reply>) = offers.into_iter().unzip();
        let direct = handover.assign(&mut offers);
        if !offers.is_empty() {
            fault::pass(Point::BeforeOffer);
        }
        if !direct.is_empty() {
            fault::pass(Point::BeforeClaim);
        }
        let stored = match handover.stores.write_offers(node, ended, &offers).await {
            Ok(stored) => stored,
            Err(error) => {
                tracing::debug!(%error, "cannot write offers");
                direct.into_iter().for_each(|direct| handover.claims.put_back(direct.batch, false));
                return Err(offers.iter().filter_map(claim_of).collect());
            }
        };
        if !offers.is_empty() {
            fault::pass(Point::AfterOffer);
        }
        if !direct.is_empty() {
            fault::pass(Point::AfterClaim);
        }
        for Direct { batch, owners } in direct {
            let mut assigned: Vec<Vec<ClaimedCall>> = batch.claims.iter().map(|_| Vec::new()).collect();
            for (place, owner) in owners {
                let claimed_call = claimed_call_of(handover, &offers[place], &stored);
                assigned[owner].extend(claimed_call);
            }
            let gone = handover.answer(batch, assigned, false);
            handover.take_back_all(gone).await;
        }
        let left = offers.iter().filter(|offer| offer.worker.is_none());
        let queues: HashSet<_> = left.map(|offer| (&offer.tenant, &offer.queue)).collect();
        for (tenant, queue) in queues {
            handover.stores.signals().notify_work(tenant, queue);
        }
        for (offer, reply) in offers.iter().zip(replies) {
            // The call may have been interrupted.
            let _ = reply.send(stored.get(&offer.call).copied());
        }
        Ok(())
    }
}

/// Returns the claim that an offer makes.
fn claim_of(offer: &Offer) -> Option<Claim> {
    let Offer { call, attempt, lease_ms, worker, .. } = offer;
    Some(Claim { call: *call, attempt: *attempt, lease_ms: *lease_ms, worker: worker.clone()?, is_own: true })
}

/// Returns a call for the worker that has claimed it with its offer.
fn claimed_call_of(handover: &Handover, offer: &Offer, stored: &HashMap<Uuid, StoredOffer>) -> Option<ClaimedCall> {
    stored.get(&offer.call).filter(|stored| stored.is_claim_of(offer.attempt))?;
    let OfferedCall { call, arguments } = handover.offers.content(offer.call)?;
    Some(ClaimedCall { call, attempt: offer.attempt, lease_ms: offer.lease_ms, arguments })
}
