//! The last step of a claim: the worker that waits gets its calls, and their owners are notified.

use std::sync::Arc;

use uuid::Uuid;

use super::claims::{Batch, ClaimedCall, Claims, WaitingClaim};
use super::live::LiveCalls;
use super::offers::Offers;
use crate::store::Stores;
use crate::store::signals::Hint;
use crate::store::workers::Claim;

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
    /// Answers the claims of a batch with their calls: those at place `n` of `gifts` are for claim `n`. Claims without a call
    /// wait on.
    pub async fn answer(&self, mut batch: Batch, gifts: Vec<Vec<ClaimedCall>>, may_have_calls: bool) {
        let mut left = Vec::new();
        for (waiting, gifts) in std::mem::take(&mut batch.claims).into_iter().zip(gifts) {
            match gifts.is_empty() {
                true => left.push(waiting),
                false => self.give(waiting, gifts).await,
            }
        }
        self.claims.put_back(Batch { claims: left, ..batch }, may_have_calls);
    }

    /// Answers a worker. If it is gone, its calls are given back.
    async fn give(&self, waiting: WaitingClaim, gifts: Vec<ClaimedCall>) {
        let WaitingClaim { answer, worker, .. } = waiting;
        let claims: Vec<(Uuid, u32)> = gifts.iter().map(|gift| (gift.call.id, gift.attempt)).collect();
        match answer.send(Ok(gifts)) {
            Ok(()) => claims.into_iter().for_each(|(call, attempt)| self.tell_owner(call, attempt)),
            Err(refused) => {
                for gift in refused.into_iter().flatten() {
                    let ClaimedCall { call, attempt, lease_ms, .. } = gift;
                    let claim = Claim { call: call.id, attempt, lease_ms, worker: worker.clone(), is_own: false };
                    self.take_back(&claim).await;
                }
                // They are waiting again.
                self.claims.note_work(&Hint::Any);
            }
        }
    }

    /// Takes a call back, so that another worker gets it. Returns `false` if this fails; then the lease expires.
    pub async fn take_back(&self, claim: &Claim) -> bool {
        let taken = self.stores.unclaim(claim).await;
        taken.inspect_err(|error| tracing::debug!(id = %claim.call, %error, "cannot take back a call")).is_ok()
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
