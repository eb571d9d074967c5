//! Calls that workers claim in the commit that accepts them.
//!
//! A call enters before its acceptance is written, and the writer of the commit asks for workers. After the commit, each call
//! gives itself to its worker, or leaves. A worker is answered once all its calls have done so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::claims::{Batch, ClaimedCall};
use super::handover::{Direct, Handover};
use super::offers::OfferedCall;
use toolpost_core::fault::{self, Point};
use toolpost_store::store::journal::ClaimAssigner;
use toolpost_store::store::workers::Offer;

/// The calls of this node that workers may claim with their acceptance. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct EarlyClaims(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    handover: Handover,
    tasks: TaskTracker,
    calls: Mutex<HashMap<Uuid, Entered>>,
}

#[derive(Debug)]
struct Entered {
    offer: Offer,
    place: Option<Place>,
}

/// A place of a call in the answers to claims.
#[derive(Debug)]
struct Place {
    answers: Arc<Answers>,
    /// The index of the claim.
    claim: usize,
}

/// The answers to claims that were assigned together. They are sent when this is dropped.
#[derive(Debug)]
struct Answers {
    handover: Handover,
    tasks: TaskTracker,
    content: Mutex<Option<(Batch, Vec<Vec<ClaimedCall>>)>>,
}

/// A call that a worker may claim, until this is dropped.
#[derive(Debug)]
pub(super) struct EarlyClaim {
    claims: EarlyClaims,
    call: Uuid,
}

impl EarlyClaims {
    /// Creates the early claims of a node. Their tasks belong to `tasks`.
    pub fn new(handover: Handover, tasks: TaskTracker) -> Self {
        Self(Arc::new(Shared { handover, tasks, calls: Mutex::default() }))
    }

    /// Enters a call until the returned claim is dropped.
    pub fn enter(&self, offer: Offer) -> EarlyClaim {
        let call = offer.call;
        self.0.calls().insert(call, Entered { offer, place: None });
        EarlyClaim { claims: self.clone(), call }
    }
}

impl EarlyClaim {
    /// Returns the assigner of workers, for the change that accepts the call.
    pub fn assigner(&self) -> Arc<dyn ClaimAssigner> {
        self.claims.0.clone()
    }

    /// Gives the call to the worker that has claimed it. Returns `false` if none has.
    pub fn give(self, content: OfferedCall) -> bool {
        let Some(Entered { offer, place: Some(place) }) = self.claims.0.remove(self.call) else { return false };
        let Offer { attempt, lease_ms, .. } = offer;
        let OfferedCall { call, arguments } = content;
        place.answers.add(place.claim, ClaimedCall { call, attempt, lease_ms, arguments });
        true
    }
}

impl Drop for EarlyClaim {
    fn drop(&mut self) {
        self.claims.0.remove(self.call);
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, HashMap<Uuid, Entered>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, call: Uuid) -> Option<Entered> {
        self.calls().remove(&call)
    }
}

impl ClaimAssigner for Shared {
    fn assign(&self, accepted: &[Uuid]) -> Vec<Offer> {
        let mut calls = self.calls();
        let without_worker =
            accepted.iter().filter_map(|call| calls.get(call)).filter(|entered| entered.place.is_none());
        let mut offers: Vec<Offer> = without_worker.map(|entered| entered.offer.clone()).collect();
        for Direct { batch, owners } in self.handover.assign(&mut offers) {
            let answers = Arc::new(Answers::new(self, batch));
            for (index, claim) in owners {
                let offer = &offers[index];
                if let Some(entered) = calls.get_mut(&offer.call) {
                    entered.offer.worker.clone_from(&offer.worker);
                    entered.place = Some(Place { answers: answers.clone(), claim });
                }
            }
        }
        let assigned = accepted.iter().filter_map(|call| calls.get(call)).filter(|entered| entered.place.is_some());
        let assigned: Vec<Offer> = assigned.map(|entered| entered.offer.clone()).collect();
        if !assigned.is_empty() {
            fault::pass(Point::BeforeClaim);
        }
        assigned
    }
}

impl Answers {
    fn new(shared: &Shared, batch: Batch) -> Self {
        let assigned = batch.claims.iter().map(|_| Vec::new()).collect();
        let (handover, tasks) = (shared.handover.clone(), shared.tasks.clone());
        Self { handover, tasks, content: Mutex::new(Some((batch, assigned))) }
    }

    fn add(&self, claim: usize, claimed_call: ClaimedCall) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let assigned = content.as_mut().and_then(|(_, assigned)| assigned.get_mut(claim));
        if let Some(assigned) = assigned {
            assigned.push(claimed_call);
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some((batch, assigned)) = content.take() else { return };
        if assigned.iter().any(|assigned| !assigned.is_empty()) {
            fault::pass(Point::AfterClaim);
        }
        let gone = self.handover.answer(batch, assigned, false);
        if !gone.is_empty() {
            let handover = self.handover.clone();
            self.tasks.spawn(async move { handover.take_back_all(gone).await });
        }
    }
}
