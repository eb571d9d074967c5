//! The last step of a claim: the worker that waits gets its calls, and their owners are notified.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::claims::{Batch, ClaimedCall, Claims, WaitingClaim};
use super::live::LiveCalls;
use super::offers::Offers;
use toolpost_core::domain::Tenant;
use toolpost_store::store::Stores;
use toolpost_store::store::signals::Hint;
use toolpost_store::store::workers::{Claim, Offer};

/// Maximum number of calls that one commit gives away.
pub(super) const MOST: usize = 256;

/// Gives claimed calls to waiting workers. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Handover {
    pub stores: Stores,
    pub live: LiveCalls,
    pub offers: Offers,
    pub claims: Arc<Claims>,
}

/// The places of waiting claims: for each, the claim that gets it, and its worker.
pub(super) struct Places {
    pub owners: Vec<usize>,
    pub workers: Vec<Arc<str>>,
}

/// Waiting claims that get calls with their offers.
#[derive(Debug)]
pub(super) struct Direct {
    pub batch: Batch,
    /// The index of each assigned offer, with that of its claim.
    pub owners: Vec<(usize, usize)>,
}

impl Places {
    /// Distributes at most `most` places evenly among claims.
    pub fn of(claims: &[WaitingClaim], most: usize) -> Self {
        let (mut owners, mut workers) = (Vec::new(), Vec::new());
        for round in 0.. {
            let before = owners.len();
            for (index, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.max > round) {
                if owners.len() < most {
                    owners.push(index);
                    workers.push(claim.worker.clone());
                }
            }
            if owners.len() == before {
                break;
            }
        }
        Self { owners, workers }
    }
}

impl Handover {
    /// Assigns new offers to workers that wait at this node for calls of their queues, best calls first.
    pub fn assign(&self, offers: &mut [Offer]) -> Vec<Direct> {
        let mut of_queues: HashMap<(Tenant, Arc<str>), Vec<usize>> = HashMap::new();
        for (place, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.is_first) {
            of_queues.entry((offer.tenant.clone(), offer.queue.clone())).or_default().push(place);
        }
        let mut assigned = Vec::new();
        for ((tenant, queue), mut places) in of_queues {
            let Some(batch) = self.claims.take_idle(&tenant, &queue) else { continue };
            places.sort_by_key(|place| (Reverse(offers[*place].priority), offers[*place].call));
            let Places { owners, workers } = Places::of(&batch.claims, places.len());
            for (place, worker) in places.iter().zip(workers) {
                offers[*place].worker = Some(worker);
            }
            assigned.push(Direct { batch, owners: places.into_iter().zip(owners).collect() });
        }
        assigned
    }

    /// Answers the claims of a batch with their calls: those at place `n` of `assigned` are for claim `n`. Claims without a call
    /// wait on. Returns the calls of workers that are gone, which the caller takes back.
    #[must_use]
    pub fn answer(&self, mut batch: Batch, assigned: Vec<Vec<ClaimedCall>>, may_have_calls: bool) -> Vec<Claim> {
        let (mut left, mut gone) = (Vec::new(), Vec::new());
        for (waiting, assigned) in std::mem::take(&mut batch.claims).into_iter().zip(assigned) {
            match assigned.is_empty() {
                true => left.push(waiting),
                false => gone.extend(self.give(waiting, assigned)),
            }
        }
        self.claims.put_back(Batch { claims: left, ..batch }, may_have_calls);
        gone
    }

    /// Answers a worker. If it is gone, returns its calls.
    fn give(&self, waiting: WaitingClaim, assigned: Vec<ClaimedCall>) -> Vec<Claim> {
        let WaitingClaim { answer, worker, .. } = waiting;
        let claims: Vec<(Uuid, u32)> =
            assigned.iter().map(|claimed_call| (claimed_call.call.id, claimed_call.attempt)).collect();
        let Err(refused) = answer.send(Ok(assigned)) else {
            claims.into_iter().for_each(|(call, attempt)| self.tell_owner(call, attempt));
            return Vec::new();
        };
        let claim_of = |ClaimedCall { call, attempt, lease_ms, .. }| Claim {
            call: call.id,
            attempt,
            lease_ms,
            worker: worker.clone(),
            is_own: false,
        };
        refused.into_iter().flatten().map(claim_of).collect()
    }

    /// Takes back the calls of workers that are gone.
    pub async fn take_back_all(&self, gone: Vec<Claim>) {
        for claim in &gone {
            // If this fails, the lease expires.
            self.take_back(claim, &mut None).await;
        }
        if !gone.is_empty() {
            // They are waiting again.
            self.claims.note_work(&Hint::Any);
        }
    }

    /// Takes a call back, so that another worker gets it. `claimed_at` is read first, and kept for a further try: a later claim of the
    /// same worker has another time. Returns `false` if this fails.
    pub async fn take_back(&self, claim: &Claim, claimed_at: &mut Option<i64>) -> bool {
        let taken = async {
            if claimed_at.is_none() {
                *claimed_at = self.stores.claimed_at(claim).await?;
            }
            match *claimed_at {
                Some(at) => self.stores.unclaim(claim, at).await,
                None => Ok(()),
            }
        };
        taken.await.inspect_err(|error| tracing::debug!(id = %claim.call, %error, "cannot take back a call")).is_ok()
    }

    /// Notifies the owner of the call that a worker has claimed an attempt.
    fn tell_owner(&self, call: Uuid, attempt: u32) {
        self.offers.note_claim(call, attempt);
        self.signal_owner(call);
    }

    /// Wakes the node that owns the call, unless it is this one.
    pub fn signal_owner(&self, call: Uuid) {
        if self.live.get(call).is_none() {
            self.stores.signals().notify_inbox(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_evenly_among_claims() {
        let claims = [WaitingClaim::of("a", 3), WaitingClaim::of("b", 1), WaitingClaim::of("c", 2)];
        let of = |most| {
            let Places { owners, workers } = Places::of(&claims, most);
            let names: String = workers.iter().map(|worker| &**worker).collect();
            (owners, names)
        };
        assert_eq!(of(9), (vec![0, 1, 2, 0, 2, 0], "abcaca".to_owned()));
        assert_eq!(of(4), (vec![0, 1, 2, 0], "abca".to_owned()));
        assert_eq!(of(0), (Vec::new(), String::new()));
    }
}
