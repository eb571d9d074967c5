//! The part of step 5 that concerns `worker` tools: offers an attempt and waits until a worker has it.
//!
//! The row of the offer is the truth: every change compares its attempt, so that a worker that was frozen, or a node that
//! was, changes nothing. This node reads the row when it is notified and when a time has passed.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::inject::ExecutorInputs;
use super::interrupt::{Deadline, Interrupt, Race};
use super::lease_watch::LeaseWatch;
use super::log::Recorded;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::wait::Waiter;
use crate::engine::inbox::Inbox;
use crate::engine::offer_writer::OfferWriter;
use crate::engine::offers::{OfferedCall, Offers};
use crate::hooks::Hooks;
use crate::registry::Entry;
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::limits::Limits;
use toolpost_core::domain::tool::WorkerSpec;
use toolpost_core::domain::{Failure, HookEvent};
use toolpost_store::store::Stores;
use toolpost_store::store::journal::Change;
use toolpost_store::store::workers::{AfterLease, Offer, OfferState, StoredOffer};

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
    /// The attempt runs already; for how long, in milliseconds, if this is known.
    Known { elapsed_ms: Option<u64> },
}

impl<'a> HandOut<'a> {
    /// Offers the first attempt of a call, and waits until a worker has it.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn hand_out(
        &self,
        run: &mut CallRun,
        entry: &Entry,
        inputs: &ExecutorInputs,
        spec: &WorkerSpec,
    ) -> Result<(), RunExit> {
        run.posted().open();
        run.register();
        let attempt = run.call().attempts + 1;
        if !run.is_recorded() {
            let offer = offer_of(run, entry, spec, attempt);
            if self.accept(run, inputs, &offer).await? {
                let waited = self.await_claim(run, &offer, Duration::ZERO).await;
                return self.or_withdraw(run, waited).await;
            }
        } else if self.hooks.has(HookEvent::BeforeToolCall) || run.signals().arguments.is_some() {
            // Any node may give the call to a worker, with the arguments of its row.
            run.record_status(self.waiter.clock.now()).await?;
        }
        self.offer_and_wait(run, entry, inputs, spec, attempt).await
    }

    /// Commits the acceptance of a call, together with the claim of a worker that waits. Returns `true` if one gets the call.
    ///
    /// The claim is answered only after a commit in time. If the commit is late, the response says that the call was not run,
    /// so no worker may get it.
    ///
    /// # Errors
    /// Returns the end of a call that is not recorded, or not in time.
    async fn accept(&self, run: &mut CallRun, inputs: &ExecutorInputs, offer: &Offer) -> Result<bool, RunExit> {
        let content = self.await_worker(run, inputs);
        let claims = &self.writer.handover().claims;
        claims.await_claims(|| vec![(offer.tenant.clone(), offer.queue.clone())]).await;
        let early = self.writer.early_claims().enter(offer.clone());
        let claimed = |change: Change| change.with_assigner(early.assigner());
        match run.accept_with(content.call.clone(), claimed).await? {
            Recorded::InTime => Ok(early.give(content)),
            Recorded::Late => {
                // The row says that a worker has the call, which would count as an attempt.
                self.retried(run, || self.stores.delete_offer(run.id(), self.node)).await?;
                Err(Failure::overloaded("The call could not be recorded in time and was not run").into())
            }
        }
    }

    /// Waits until a worker has the next attempt of a call whose last worker has lost it.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn hand_out_again(
        &self,
        run: &mut CallRun,
        entry: &Entry,
        inputs: &ExecutorInputs,
        spec: &WorkerSpec,
    ) -> Result<(), RunExit> {
        run.record_start().await;
        let attempt = run.call().attempts + 1;
        let tip = format!("Attempt {attempt} waits for a worker");
        let update = StatusUpdate { phase: Some(Phase::Retrying), tip: Some(tip), ..StatusUpdate::default() };
        run.publish(update, self.waiter.clock.now()).await?;
        self.offer_and_wait(run, entry, inputs, spec, attempt).await?;
        run.posted().keep();
        Ok(())
    }

    /// Continues with a call that was handed out before a restart.
    ///
    /// # Errors
    /// Returns the end of a call whose worker is lost and that must not run again, or that is interrupted.
    pub async fn rejoin(
        &self,
        run: &mut CallRun,
        entry: &Entry,
        inputs: &ExecutorInputs,
        spec: &WorkerSpec,
    ) -> Result<Claimed, RunExit> {
        run.posted().open();
        run.register();
        let call = run.id();
        let row = self.retried(run, || self.stores.take_over_offer(call, self.node)).await?;
        let next = run.call().attempts + 1;
        let known = Claimed::Known { elapsed_ms: None };
        match row {
            // A lost node may have offered the next attempt without recording its start.
            Some(StoredOffer { attempt, state: OfferState::Answered, .. }) if attempt >= next => Ok(Claimed::New),
            Some(StoredOffer { state: OfferState::Answered, .. }) => Ok(known),
            _ if run.posted().has_posted() => Ok(known),
            Some(StoredOffer { attempt, state: OfferState::Claimed { since, .. }, .. }) if attempt < next => {
                // The row belongs to this node from now on.
                self.offer_and_wait(run, entry, inputs, spec, attempt).await?;
                Ok(Claimed::Known { elapsed_ms: u64::try_from(since.as_millis()).ok() })
            }
            Some(StoredOffer { attempt, .. }) if attempt < next => {
                self.offer_and_wait(run, entry, inputs, spec, attempt).await.map(|()| known)
            }
            None if !entry.definition.is_repeatable() => {
                Err(Failure::outcome_unknown(&entry.name).lost_by_worker().into())
            }
            Some(_) | None => self.offer_and_wait(run, entry, inputs, spec, next).await.map(|()| Claimed::New),
        }
    }

    /// Takes an attempt that has failed from its worker, so that the next one can be offered.
    ///
    /// # Errors
    /// Returns the end of a call that is interrupted.
    pub async fn withdraw(&self, run: &mut CallRun) -> Result<(), RunExit> {
        run.record_start().await;
        self.retried(run, || self.stores.withdraw_unanswered(run.id(), self.node)).await.map(drop)
    }

    /// Watches the lease of the worker that runs the current attempt.
    pub fn watch(&self, run: &mut CallRun, entry: &Entry, spec: &WorkerSpec) -> LeaseWatch<'a> {
        let then = if entry.definition.is_repeatable() { AfterLease::OfferAgain } else { AfterLease::End };
        LeaseWatch {
            stores: self.stores,
            inbox: self.inbox,
            node: self.node,
            call: run.id(),
            attempt: run.call().attempts,
            then,
            slot: run.posted().clone(),
            queue: (run.call().tenant.clone(), spec.queue.as_str().into()),
            watch: run.watch_offer(self.offers),
            lease: Duration::from_millis(spec.lease_ms),
        }
    }

    /// Offers an attempt and waits until a worker has it.
    async fn offer_and_wait(
        &self,
        run: &mut CallRun,
        entry: &Entry,
        inputs: &ExecutorInputs,
        spec: &WorkerSpec,
        attempt: u32,
    ) -> Result<(), RunExit> {
        let offer = offer_of(run, entry, spec, attempt);
        let waited = self.offer_and_await_claim(run, inputs, &offer).await;
        self.or_withdraw(run, waited).await
    }

    /// Takes the offer back if the wait for a worker has ended without one. An attempt that a worker has claimed before counts,
    /// although this node may not have noticed the claim.
    async fn or_withdraw(&self, run: &CallRun, waited: Result<(), RunExit>) -> Result<(), RunExit> {
        match waited {
            Err(RunExit::Settle(outcome)) => loop {
                self.writer.forget(run.id()).await;
                match self.stores.withdraw_unclaimed(run.id(), self.node).await {
                    Ok(true) => return Err(RunExit::Settle(outcome)),
                    Ok(false) => return Ok(()),
                    Err(error) => tracing::debug!(id = %run.id(), %error, "cannot take back an offer"),
                }
                let paused = Race::against_stop(self.waiter.shutdown).run(tokio::time::sleep(RETRY_AFTER));
                if paused.await.is_err() {
                    return Err(RunExit::LeaveQueued);
                }
            },
            waited => waited,
        }
    }

    async fn offer_and_await_claim(
        &self,
        run: &mut CallRun,
        inputs: &ExecutorInputs,
        offer: &Offer,
    ) -> Result<(), RunExit> {
        self.await_worker(run, inputs);
        // A failed write may have stored the offer.
        let mut is_first = offer.is_first;
        let write = || self.writer.offer(Offer { is_first: std::mem::take(&mut is_first), ..offer.clone() });
        let stored = self.retried(run, write).await?;
        // Another node has adopted the call.
        let Some(stored) = stored else { return Err(RunExit::TakenOver) };
        match stored.is_waiting(offer.attempt) {
            true => self.await_claim(run, offer, stored.age).await,
            false => Ok(()),
        }
    }

    /// Records that a worker is awaited. Returns what it gets.
    fn await_worker(&self, run: &mut CallRun, inputs: &ExecutorInputs) -> OfferedCall {
        let watch = run.watch_offer(self.offers);
        let call = run.call();
        watch.await_worker(|| OfferedCall { call: Arc::new(call.clone()), arguments: inputs.arguments_of(call) })
    }

    /// Waits until a worker has an offered attempt. `age` is the time since it is offered.
    async fn await_claim(&self, run: &mut CallRun, offer: &Offer, age: Duration) -> Result<(), RunExit> {
        let watch = run.watch_offer(self.offers);
        let deadline = self.deadline(run, offer.attempt, age);
        loop {
            let race = Race::new(run.cancel(), self.waiter.shutdown);
            let race = race.left_on_drain(run.is_detached(), self.waiter.shutdown).until(deadline);
            match race.run(watch.changed()).await {
                Ok(()) => {}
                Err(Interrupt::Drained) => return Err(RunExit::LeaveQueued),
                Err(Interrupt::TimedOut(limit_ms, _)) => {
                    let withdrawn = || self.stores.withdraw_waiting(offer.call, offer.attempt);
                    if self.retried(run, withdrawn).await? {
                        return Err(Failure::no_worker(&offer.tool, &offer.queue, limit_ms).into());
                    }
                }
                Err(interrupt) => return Err(interrupt.into()),
            }
            if watch.is_claimed_here(offer.attempt) {
                return Ok(());
            }
            let mut stored = self.retried(run, || self.stores.offer_of(offer.call)).await?;
            if stored.is_none() {
                // The database has lost the row in a crash, unless another node has adopted the call and deleted it.
                let again = || self.writer.offer(Offer { is_first: false, ..offer.clone() });
                stored = self.retried(run, again).await?;
            }
            let Some(stored) = stored else { return Err(RunExit::TakenOver) };
            if !stored.is_waiting(offer.attempt) {
                return Ok(());
            }
        }
    }

    /// Returns the end of the time for which an attempt waits for a worker.
    fn deadline(&self, run: &CallRun, attempt: u32, age: Duration) -> Option<Deadline> {
        if attempt == 1 {
            return self.waiter.queue_deadline(run.call());
        }
        let Limits { queue_timeout_ms, .. } = run.call().limits?;
        Deadline::of(queue_timeout_ms?, u64::try_from(age.as_millis()).unwrap_or(u64::MAX), "queue_timeout_ms")
    }

    /// Repeats an access to the database until it succeeds or the call is interrupted.
    async fn retried<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        run: &CallRun,
        mut access: impl FnMut() -> F,
    ) -> Result<T, RunExit> {
        let work = async {
            loop {
                match access().await {
                    Ok(done) => return done,
                    Err(error) => {
                        tracing::debug!(id = %run.id(), %error, "cannot read or write the offer of a call");
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                }
            }
        };
        let race = Race::new(run.cancel(), self.waiter.shutdown);
        let race = race.left_on_drain(run.is_detached(), self.waiter.shutdown).work_first();
        race.run(work).await.map_err(RunExit::from)
    }
}

/// Returns the offer of an attempt.
fn offer_of(run: &CallRun, entry: &Entry, spec: &WorkerSpec, attempt: u32) -> Offer {
    let call = run.call();
    Offer {
        call: call.id,
        tenant: call.tenant.clone(),
        queue: spec.queue.as_str().into(),
        tool: entry.name.clone(),
        priority: call.priority,
        attempt,
        lease_ms: spec.lease_ms,
        is_first: run.losses().is_none() && attempt == 1,
        worker: None,
    }
}
