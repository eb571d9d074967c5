//! The part of step 5 that concerns `worker` tools: offers an attempt and waits until a worker has it.
//!
//! The row of the offer is the truth: every change compares its attempt, so that a worker that was frozen, or a node that
//! was, changes nothing. This node reads the row when it is notified and when a time has passed.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::interrupt::{Deadline, Interrupt, Race};
use super::lease_watch::LeaseWatch;
use super::recorder::Recorded;
use super::state::{Ongoing, RunExit};
use super::wait::Waiter;
use crate::domain::call::{Phase, StatusUpdate};
use crate::domain::limits::Limits;
use crate::domain::tool::WorkerSpec;
use crate::domain::{Failure, HookEvent};
use crate::engine::inbox::Inbox;
use crate::engine::offer_writer::OfferWriter;
use crate::engine::offers::{OfferedCall, Offers};
use crate::fault::{self, Point};
use crate::hooks::Hooks;
use crate::registry::Entry;
use crate::store::Stores;
use crate::store::journal::JournalError;
use crate::store::workers::{AfterLease, Offer, OfferState, StoredOffer};

/// Pause after a failed access to the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Offers calls to workers.
#[derive(Clone, Copy)]
pub(super) struct HandOut<'a> {
    pub stores: &'a Stores,
    pub node: &'a Arc<str>,
    pub waiter: Waiter<'a>,
    pub inbox: &'a Inbox,
    pub offers: &'a Offers,
    pub writer: &'a OfferWriter,
    pub hooks: &'a Hooks,
}

/// The state of an attempt that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// The start of the attempt is not recorded.
    New,
    /// The attempt runs already.
    Known,
}

impl<'a> HandOut<'a> {
    /// Offers the first attempt of a call, and waits until a worker has it.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn hand_out(&self, job: &mut Ongoing, entry: &Entry, spec: &WorkerSpec) -> Result<(), RunExit> {
        job.handle.outside.open();
        job.register(self.waiter.live);
        let attempt = job.call.attempts + 1;
        if !job.recorder.has_announced() {
            let offer = offer_of(job, entry, spec, attempt);
            if self.accept(job, &offer).await? {
                let waited = self.await_claim(job, &offer, Duration::ZERO).await;
                return self.or_withdraw(job, waited).await;
            }
        } else if self.hooks.has(HookEvent::BeforeToolCall) || job.handle.draft.is_some() {
            // Any node may give the call to a worker, with the arguments of its row.
            self.publish(job).await?;
        }
        self.offer_and_wait(job, entry, spec, attempt).await
    }

    /// Commits the acceptance of a call, together with the claim of a worker that waits. Returns `true` if one gets the call.
    ///
    /// The claim is answered only after a commit in time. If the commit is late, the response says that the call was not run,
    /// so no worker may get it.
    ///
    /// # Errors
    /// Returns the end of a call that is not recorded, or not in time.
    async fn accept(&self, job: &mut Ongoing, offer: &Offer) -> Result<bool, RunExit> {
        let content = self.await_worker(job);
        let claims = &self.writer.handover().claims;
        claims.await_claims(|| vec![(offer.tenant.clone(), offer.queue.clone())]).await;
        let early = self.writer.early_claims().enter(offer.clone());
        let change = job.recorder.shared_change(content.call.clone()).with_assigner(early.assigner());
        fault::pass(Point::BeforeAccept);
        let written = job.recorder.write(change).await;
        fault::pass(Point::AfterAccept);
        match written {
            Ok(Recorded::InTime) => {
                job.is_accepted_first = true;
                Ok(early.give(content))
            }
            Ok(Recorded::Late) => {
                // The row says that a worker has the call, which would count as an attempt.
                self.retried(job, || self.stores.delete_offer(job.call.id, self.node)).await?;
                Err(Failure::overloaded("The call could not be recorded in time and was not run").into())
            }
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Err(Failure::overloaded(&format!("The call was not run: {error}")).into()),
        }
    }

    /// Waits until a worker has the next attempt of a call whose last worker has lost it.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn hand_out_again(&self, job: &mut Ongoing, entry: &Entry, spec: &WorkerSpec) -> Result<(), RunExit> {
        job.record_start().await;
        let tip = format!("Attempt {} waits for a worker", job.call.attempts + 1);
        let update = StatusUpdate { phase: Some(Phase::Retrying), tip: Some(tip), ..StatusUpdate::default() };
        job.call.update(update).map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        job.recorder.enqueue(job.status_change(self.waiter.clock.now())).await;
        let attempt = job.call.attempts + 1;
        self.offer_and_wait(job, entry, spec, attempt).await?;
        job.handle.outside.keep();
        Ok(())
    }

    /// Continues with a call that was handed out before a restart.
    ///
    /// # Errors
    /// Returns the end of a call whose worker is lost and that must not run again, or that is interrupted.
    pub async fn rejoin(&self, job: &mut Ongoing, entry: &Entry, spec: &WorkerSpec) -> Result<Claimed, RunExit> {
        job.handle.outside.open();
        job.register(self.waiter.live);
        let call = job.call.id;
        let row = self.retried(job, || self.stores.take_over_offer(call, self.node)).await?;
        let next = job.call.attempts + 1;
        match row {
            // A lost node may have offered the next attempt without recording its start.
            Some(StoredOffer { attempt, state: OfferState::Answered, .. }) if attempt >= next => Ok(Claimed::New),
            Some(StoredOffer { state: OfferState::Answered, .. }) => Ok(Claimed::Known),
            _ if job.handle.outside.has_posted() => Ok(Claimed::Known),
            Some(StoredOffer { attempt, state: OfferState::Claimed { since, .. }, .. }) if attempt < next => {
                job.runs_since_ms = u64::try_from(since.as_millis()).ok();
                // The row belongs to this node from now on.
                self.offer_and_wait(job, entry, spec, attempt).await.map(|()| Claimed::Known)
            }
            Some(StoredOffer { attempt, .. }) if attempt < next => {
                self.offer_and_wait(job, entry, spec, attempt).await.map(|()| Claimed::Known)
            }
            None if !entry.definition.is_repeatable() => {
                Err(Failure::outcome_unknown(&entry.name).lost_by_worker().into())
            }
            Some(_) | None => self.offer_and_wait(job, entry, spec, next).await.map(|()| Claimed::New),
        }
    }

    /// Takes an attempt that has failed from its worker, so that the next one can be offered.
    ///
    /// # Errors
    /// Returns the end of a call that is interrupted.
    pub async fn withdraw(&self, job: &mut Ongoing) -> Result<(), RunExit> {
        job.record_start().await;
        self.retried(job, || self.stores.withdraw_unanswered(job.call.id, self.node)).await.map(drop)
    }

    /// Watches the lease of the worker that runs the current attempt.
    pub fn watch(&self, job: &mut Ongoing, entry: &Entry, spec: &WorkerSpec) -> LeaseWatch<'a> {
        let then = if entry.definition.is_repeatable() { AfterLease::OfferAgain } else { AfterLease::End };
        LeaseWatch {
            stores: self.stores,
            inbox: self.inbox,
            node: self.node,
            call: job.call.id,
            attempt: job.call.attempts,
            then,
            slot: job.handle.outside.clone(),
            queue: (job.call.tenant.clone(), spec.queue.as_str().into()),
            watch: job.watch_offer(self.offers),
            lease: Duration::from_millis(spec.lease_ms),
        }
    }

    /// Records the current state of the call.
    async fn publish(&self, job: &mut Ongoing) -> Result<(), RunExit> {
        job.announce(self.waiter.live).await;
        job.call.note().map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        match job.recorder.write(job.status_change(self.waiter.clock.now())).await {
            Ok(_) => Ok(()),
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Err(Failure::overloaded(&format!("The call was not run: {error}")).into()),
        }
    }

    /// Offers an attempt and waits until a worker has it.
    async fn offer_and_wait(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        spec: &WorkerSpec,
        attempt: u32,
    ) -> Result<(), RunExit> {
        let offer = offer_of(job, entry, spec, attempt);
        let waited = self.offer_and_await_claim(job, &offer).await;
        self.or_withdraw(job, waited).await
    }

    /// Takes the offer back if the wait for a worker has ended without one. An attempt that a worker has claimed before counts,
    /// although this node may not have noticed the claim.
    async fn or_withdraw(&self, job: &Ongoing, waited: Result<(), RunExit>) -> Result<(), RunExit> {
        match waited {
            Err(RunExit::Settle(outcome)) => loop {
                self.writer.forget(job.call.id).await;
                match self.stores.withdraw_unclaimed(job.call.id, self.node).await {
                    Ok(true) => return Err(RunExit::Settle(outcome)),
                    Ok(false) => return Ok(()),
                    Err(error) => tracing::debug!(id = %job.call.id, %error, "cannot take back an offer"),
                }
                let paused = Race::against_stop(self.waiter.shutdown).run(tokio::time::sleep(RETRY_AFTER));
                if paused.await.is_err() {
                    return Err(RunExit::LeaveQueued);
                }
            },
            waited => waited,
        }
    }

    async fn offer_and_await_claim(&self, job: &mut Ongoing, offer: &Offer) -> Result<(), RunExit> {
        self.await_worker(job);
        // A failed write may have stored the offer.
        let mut is_first = offer.is_first;
        let write = || self.writer.offer(Offer { is_first: std::mem::take(&mut is_first), ..offer.clone() });
        let stored = self.retried(job, write).await?;
        // Another node has adopted the call.
        let Some(stored) = stored else { return Err(RunExit::TakenOver) };
        match stored.is_waiting(offer.attempt) {
            true => self.await_claim(job, offer, stored.age).await,
            false => Ok(()),
        }
    }

    /// Records that a worker is awaited. Returns what it gets.
    fn await_worker(&self, job: &mut Ongoing) -> OfferedCall {
        let watch = job.watch_offer(self.offers);
        watch.await_worker(|| OfferedCall { call: Arc::new(job.call.clone()), arguments: job.given_arguments() })
    }

    /// Waits until a worker has an offered attempt. `age` is the time since it is offered.
    async fn await_claim(&self, job: &mut Ongoing, offer: &Offer, age: Duration) -> Result<(), RunExit> {
        let watch = job.watch_offer(self.offers);
        let deadline = self.deadline(job, offer.attempt, age);
        loop {
            let race = Race::new(&job.handle.cancel, self.waiter.shutdown);
            let race = race.left_on_drain(job.is_queued, self.waiter.shutdown).until(deadline);
            match race.run(watch.changed()).await {
                Ok(()) => {}
                Err(Interrupt::Drained) => return Err(RunExit::LeaveQueued),
                Err(Interrupt::TimedOut(limit_ms, _)) => {
                    let withdrawn = || self.stores.withdraw_waiting(offer.call, offer.attempt);
                    if self.retried(job, withdrawn).await? {
                        return Err(Failure::no_worker(&offer.tool, &offer.queue, limit_ms).into());
                    }
                }
                Err(interrupt) => return Err(interrupt.into()),
            }
            if watch.is_claimed_here(offer.attempt) {
                return Ok(());
            }
            let mut stored = self.retried(job, || self.stores.offer_of(offer.call)).await?;
            if stored.is_none() {
                // The database has lost the row in a crash, unless another node has adopted the call and deleted it.
                let again = || self.writer.offer(Offer { is_first: false, ..offer.clone() });
                stored = self.retried(job, again).await?;
            }
            let Some(stored) = stored else { return Err(RunExit::TakenOver) };
            if !stored.is_waiting(offer.attempt) {
                return Ok(());
            }
        }
    }

    /// Returns the end of the time for which an attempt waits for a worker.
    fn deadline(&self, job: &Ongoing, attempt: u32, age: Duration) -> Option<Deadline> {
        if attempt == 1 {
            return self.waiter.queue_deadline(&job.call);
        }
        let Limits { queue_timeout_ms, .. } = job.call.limits?;
        Deadline::of(queue_timeout_ms?, u64::try_from(age.as_millis()).unwrap_or(u64::MAX), "queue_timeout_ms")
    }

    /// Repeats an access to the database until it succeeds or the call is interrupted.
    async fn retried<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        job: &Ongoing,
        mut access: impl FnMut() -> F,
    ) -> Result<T, RunExit> {
        let work = async {
            loop {
                match access().await {
                    Ok(done) => return done,
                    Err(error) => {
                        tracing::debug!(id = %job.call.id, %error, "cannot read or write the offer of a call");
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                }
            }
        };
        let race = Race::new(&job.handle.cancel, self.waiter.shutdown);
        let race = race.left_on_drain(job.is_queued, self.waiter.shutdown).work_first();
        race.run(work).await.map_err(RunExit::from)
    }
}

/// Returns the offer of an attempt.
fn offer_of(job: &Ongoing, entry: &Entry, spec: &WorkerSpec, attempt: u32) -> Offer {
    Offer {
        call: job.call.id,
        tenant: job.call.tenant.clone(),
        queue: spec.queue.as_str().into(),
        tool: entry.name.clone(),
        priority: job.call.priority,
        attempt,
        lease_ms: spec.lease_ms,
        is_first: !job.is_resumed && attempt == 1,
        worker: None,
    }
}
