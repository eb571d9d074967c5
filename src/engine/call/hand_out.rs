//! The part of step 5 that concerns `worker` tools: offers an attempt, waits until a worker has it, and watches its lease.
//!
//! The row of the offer is the truth: every change compares its attempt, so that a worker that was frozen, or a node that
//! was, changes nothing. This node reads the row when it is notified and when a time has passed.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use uuid::Uuid;

use super::interrupt::{Deadline, Interrupt, Race};
use super::state::{Ongoing, RunExit};
use super::wait::Waiter;
use crate::domain::call::{Phase, StatusUpdate};
use crate::domain::limits::Limits;
use crate::domain::tool::WorkerSpec;
use crate::domain::{Failure, HookEvent};
use crate::engine::inbox::Inbox;
use crate::engine::offer_writer::OfferWriter;
use crate::engine::offers::{OfferWatch, OfferedCall, Offers};
use crate::executor::ResultSlot;
use crate::hooks::Hooks;
use crate::registry::Entry;
use crate::store::journal::JournalError;
use crate::store::signals::QueueKey;
use crate::store::workers::{AfterLease, Offer, OfferState, StoredOffer};
use crate::store::{StoreError, Stores};

/// Pause after a failed access to the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Pause after a lease was found expired but did not end.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Longest time between two looks at the row of an offer whose worker has given it back.
const MAX_SLEEP: Duration = Duration::from_secs(60);

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

/// The lease of the worker that runs an attempt.
pub(super) struct LeaseWatch<'a> {
    hand_out: HandOut<'a>,
    call: Uuid,
    attempt: u32,
    then: AfterLease,
    slot: ResultSlot,
    queue: QueueKey,
    watch: Arc<OfferWatch>,
    lease: Duration,
}

impl<'a> HandOut<'a> {
    /// Offers the first attempt of a call, and waits until a worker has it.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn hand_out(&self, job: &mut Ongoing, entry: &Entry, spec: &WorkerSpec) -> Result<(), RunExit> {
        job.handle.outside.open();
        job.register(self.waiter.live);
        if self.hooks.has(HookEvent::BeforeToolCall) || job.handle.draft.is_some() {
            // Any node may give the call to a worker, with the arguments of its row.
            self.publish(job).await?;
        }
        let attempt = job.call.attempts + 1;
        self.offer_and_wait(job, entry, spec, attempt).await
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
            hand_out: *self,
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

    /// Offers an attempt and waits until a worker has it. An attempt that a worker has claimed before an interruption counts,
    /// although this node may not have noticed the claim.
    async fn offer_and_wait(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        spec: &WorkerSpec,
        attempt: u32,
    ) -> Result<(), RunExit> {
        match self.wait_for_worker(job, entry, spec, attempt).await {
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

    async fn wait_for_worker(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        spec: &WorkerSpec,
        attempt: u32,
    ) -> Result<(), RunExit> {
        let offer = Offer {
            call: job.call.id,
            tenant: job.call.tenant.clone(),
            queue: spec.queue.as_str().into(),
            tool: entry.name.clone(),
            priority: job.call.priority,
            attempt,
            lease_ms: spec.lease_ms,
            is_first: !job.is_resumed && attempt == 1,
            worker: None,
        };
        let watch = job.watch_offer(self.offers);
        watch.await_worker(|| OfferedCall { call: Arc::new(job.call.clone()), arguments: job.given_arguments() });
        // A failed write may have stored the offer.
        let mut is_first = offer.is_first;
        let write = || self.writer.offer(Offer { is_first: std::mem::take(&mut is_first), ..offer.clone() });
        let stored = self.retried(job, write).await?;
        // Another node has adopted the call.
        let Some(mut stored) = stored else { return Err(RunExit::TakenOver) };
        let deadline = self.deadline(job, attempt, stored.age);
        let limit_ms = job.call.limits.and_then(|limits| limits.queue_timeout_ms).unwrap_or_default();
        loop {
            if stored.attempt > attempt || stored.state != OfferState::Waiting {
                return Ok(());
            }
            let race = Race::new(&job.handle.cancel, self.waiter.shutdown);
            let race = race.left_on_drain(job.is_queued, self.waiter.shutdown).until(deadline);
            match race.run(watch.changed()).await {
                Ok(()) => {}
                Err(Interrupt::Drained) => return Err(RunExit::LeaveQueued),
                Err(Interrupt::TimedOut(..)) => {
                    let withdrawn = || self.stores.withdraw_waiting(offer.call, attempt);
                    if self.retried(job, withdrawn).await? {
                        return Err(Failure::no_worker(&entry.name, &offer.queue, limit_ms).into());
                    }
                }
                Err(interrupt) => return Err(interrupt.into()),
            }
            if watch.is_claimed_here(attempt) {
                return Ok(());
            }
            let read = || self.stores.offer_of(offer.call);
            // Only this node deletes the row, unless another one has adopted the call.
            let Some(row) = self.retried(job, read).await? else { return Err(RunExit::TakenOver) };
            stored = row;
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

impl LeaseWatch<'_> {
    /// Watches the lease. If it expires, takes the call from the worker and ends its attempt.
    pub async fn run(&self) -> Infallible {
        // A claim at this node has just begun, so its row need not be read.
        let mut left = self.watch.is_claimed_here(self.attempt).then_some(self.lease);
        if left.is_some() {
            // The wake-up that reported the claim.
            let _ = self.watch.changed().now_or_never();
            self.watch.watch_lease(self.attempt);
        }
        loop {
            let until = Instant::now() + left.unwrap_or(Duration::ZERO).min(MAX_SLEEP);
            tokio::select! {
                () = self.watch.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
            left = match self.look().await {
                Ok(left) => Some(left.unwrap_or(MAX_SLEEP)),
                Err(error) => {
                    tracing::debug!(id = %self.call, %error, "cannot read the lease of a worker");
                    Some(RETRY_AFTER)
                }
            };
        }
    }

    /// Reads the row. Returns the time until the next look, if it is known.
    async fn look(&self) -> Result<Option<Duration>, StoreError> {
        let HandOut { stores, inbox, node, .. } = self.hand_out;
        let row = {
            // The attempt may end meanwhile, and a statement that is dropped costs its connection.
            let (stores, call) = (stores.clone(), self.call);
            tokio::spawn(async move { stores.offer_of(call).await }).await
        };
        // The runtime ends.
        let Ok(row) = row else { return Ok(Some(RETRY_AFTER)) };
        let row = row?;
        match row.filter(|row| row.attempt == self.attempt).map(|row| row.state) {
            Some(OfferState::Answered) => {
                inbox.process_messages_of(self.call).await;
                Ok(None)
            }
            Some(OfferState::Claimed { left, .. }) if left.is_zero() => {
                if !self.watch.refuse_results(|| self.slot.has_result()) {
                    return Ok(None);
                }
                let has_expired = stores.expire_lease((self.call, self.attempt), node, self.then).await?;
                if has_expired {
                    tracing::info!(id = %self.call, attempt = self.attempt, "a worker has lost a call");
                    stores.signals().notify_work(&self.queue.0, &self.queue.1);
                    self.slot.lose();
                }
                // Otherwise a heartbeat came first, or the start is still being recorded.
                Ok((!has_expired).then_some(LOOK_AGAIN_AFTER))
            }
            Some(OfferState::Claimed { left, .. }) => {
                self.watch.watch_lease(self.attempt);
                Ok(Some(left))
            }
            // Its worker did not receive it, and another one gets the same attempt.
            Some(OfferState::Waiting) => Ok(None),
            None => {
                self.slot.lose();
                Ok(None)
            }
        }
    }
}
