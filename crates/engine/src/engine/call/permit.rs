//! The permission for an attempt of a `worker` tool: a worker, as a slot is for other tools.
//!
//! A worker that waits at this node for any call of the queue gets the first attempt of a call with the commit of its start. Otherwise
//! the attempt is offered, and any node may give it to a worker. The row of the offer is the truth: every change compares its attempt, so
//! that a worker that was frozen, or a node that was, changes nothing.

use std::cmp::Reverse;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::wait::{RETRY_AFTER, Waiter, repeat_until_done};
use crate::engine::inbox::Inbox;
use crate::hooks::Hooks;
use crate::inputs::ExecutorInputs;
use crate::interrupt::{Deadline, Interrupt, Race};
use crate::registry::Entry;
use crate::workqueue::{ClaimSlot, ClaimedCall, Lease, LeaseWatch, OfferedCall, WorkQueue};
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::limits::Limits;
use toolpost_core::domain::tool::WorkerSpec;
use toolpost_core::domain::{Failure, HookEvent};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::workers::{AfterLease, Offer};

/// Waits for workers.
#[derive(Clone, Copy)]
pub(super) struct WorkerPermits<'a> {
    pub workqueue: &'a WorkQueue,
    pub waiter: Waiter<'a>,
    pub inbox: &'a Inbox,
    pub hooks: &'a Hooks,
}

/// The permission for an attempt of a `worker` tool.
pub(super) enum WorkerPermit {
    /// A worker that waits at this node gets the attempt once its start is committed.
    Reserved(ClaimSlot),
    /// A worker has claimed the offered attempt.
    Claimed,
}

/// A `worker` tool whose call needs a worker.
#[derive(Clone, Copy)]
pub(super) struct WorkerTool<'a> {
    pub entry: &'a Entry,
    pub spec: &'a WorkerSpec,
    pub inputs: &'a ExecutorInputs,
}

impl<'a> WorkerPermits<'a> {
    /// Waits until a worker may have the next attempt of a call.
    ///
    /// # Errors
    /// Returns the end of a call that no worker takes, or that is interrupted.
    pub async fn acquire(&self, run: &mut CallRun, tool: WorkerTool<'_>) -> Result<WorkerPermit, RunExit> {
        run.posted().open();
        run.register();
        let offer = offer_of(run, tool);
        // A lost node may have offered an adopted call.
        if run.losses().is_none() && offer.attempt == 1 {
            let (queue, order) = ((offer.tenant.clone(), offer.queue.clone()), (Reverse(offer.priority), offer.call));
            let reserved = self.race(run).run(self.workqueue.claims.reserve(&queue, order)).await;
            if let Some(slot) = reserved? {
                return Ok(WorkerPermit::Reserved(slot));
            }
            run.accept(self.waiter.clock.now(), self.has_changed_arguments(run)).await?;
        }
        let waited = self.offer_and_await_claim(run, tool, &offer).await;
        self.or_withdraw(run, waited).await?;
        run.posted().keep();
        Ok(WorkerPermit::Claimed)
    }

    /// Records that an attempt has ended that a worker has lost, or failed, and that another one follows.
    ///
    /// # Errors
    /// Returns the end of a call that has ended already.
    pub async fn announce_next(&self, run: &mut CallRun) -> Result<(), RunExit> {
        run.record_start().await;
        let tip = format!("Attempt {} waits for a worker", run.call().attempts + 1);
        let update = StatusUpdate { phase: Some(Phase::Retrying), tip: Some(tip), ..StatusUpdate::default() };
        run.publish(update, self.waiter.clock.now()).await
    }

    /// Starts the first attempt of a call, and gives it to its worker after the commit.
    ///
    /// # Errors
    /// Returns the end of a call whose start is not recorded, or not in time: the response then says that the call was not run, so
    /// the worker does not get it.
    pub async fn start(&self, run: &mut CallRun, tool: WorkerTool<'_>, slot: ClaimSlot) -> Result<(), RunExit> {
        let claim = Offer { worker: Some(slot.worker().clone()), ..offer_of(run, tool) };
        let (attempt, lease_ms) = (claim.attempt, claim.lease_ms);
        fault::pass(Point::BeforeClaim);
        let call = run.start_with_claim(self.waiter.clock.moment(), claim).await?;
        let arguments = tool.inputs.arguments_of(&call);
        let watch = run.watch_offer(&self.workqueue.offers);
        watch.await_worker(|| OfferedCall { call: call.clone(), arguments: arguments.clone() });
        // Before the worker has the call: it may answer at once.
        watch.note_claim(attempt);
        slot.fill(ClaimedCall { call, attempt, lease_ms, arguments });
        Ok(())
    }

    /// Takes an attempt that has failed from its worker, so that its next heartbeat says so.
    ///
    /// # Errors
    /// Returns the end of a call that is interrupted.
    pub async fn release(&self, run: &mut CallRun) -> Result<(), RunExit> {
        run.record_start().await;
        let WorkQueue { stores, node, .. } = self.workqueue;
        self.retried(run, || stores.withdraw_unanswered(run.id(), node)).await.map(drop)
    }

    /// Returns `true` if the arguments of the call may differ from those of its row. Any node may give the call to a worker, with
    /// the arguments of its row.
    fn has_changed_arguments(&self, run: &CallRun) -> bool {
        self.hooks.has(HookEvent::BeforeToolCall) || run.signals().arguments.is_some()
    }

    /// Runs the current attempt while the lease of its worker is watched.
    pub async fn watched<T>(&self, mut watch: LeaseWatch<'_>, call: Uuid, attempt: impl Future<Output = T>) -> T {
        let watching = async {
            loop {
                watch.await_answer().await;
                self.inbox.process_messages_of(call).await;
            }
        };
        tokio::select! {
            biased;
            ended = attempt => ended,
            never = watching => never,
        }
    }

    /// Returns a watch of the lease of the worker that runs the current attempt.
    pub fn watch(&self, run: &mut CallRun, entry: &Entry, spec: &WorkerSpec) -> LeaseWatch<'a> {
        let then = if entry.definition.is_repeatable() { AfterLease::OfferAgain } else { AfterLease::End };
        LeaseWatch::new(Lease {
            stores: &self.workqueue.stores,
            node: &self.workqueue.node,
            call: run.id(),
            attempt: run.call().attempts,
            then,
            slot: run.posted().clone(),
            queue: (run.call().tenant.clone(), spec.queue.as_str().into()),
            watch: run.watch_offer(&self.workqueue.offers),
            duration: Duration::from_millis(spec.lease_ms),
        })
    }

    /// Takes the offer back if the wait for a worker has ended without one. An attempt that a worker has claimed before counts,
    /// although this node may not have noticed the claim.
    async fn or_withdraw(&self, run: &CallRun, waited: Result<(), RunExit>) -> Result<(), RunExit> {
        match waited {
            Err(RunExit::Settle(outcome)) => loop {
                self.workqueue.writer.forget(run.id()).await;
                match self.workqueue.stores.withdraw_unclaimed(run.id(), &self.workqueue.node).await {
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
        tool: WorkerTool<'_>,
        offer: &Offer,
    ) -> Result<(), RunExit> {
        let (watch, call) = (run.watch_offer(&self.workqueue.offers), run.call());
        let arguments = || tool.inputs.arguments_of(call);
        watch.await_worker(|| OfferedCall { call: Arc::new(call.clone()), arguments: arguments() });
        let stored = self.retried(run, || self.workqueue.writer.offer(offer.clone())).await?;
        // Another node has adopted the call.
        let Some(stored) = stored else { return Err(RunExit::TakenOver) };
        match stored.is_waiting(offer.attempt) {
            true => self.await_claim(run, offer, stored.age).await,
            false => Ok(()),
        }
    }

    /// Waits until a worker has an offered attempt. `age` is the time since it is offered.
    async fn await_claim(&self, run: &mut CallRun, offer: &Offer, age: Duration) -> Result<(), RunExit> {
        let WorkQueue { stores, writer, offers, .. } = self.workqueue;
        let watch = run.watch_offer(offers);
        let deadline = self.deadline(run, offer.attempt, age);
        loop {
            match self.race(run).until(deadline).run(watch.changed()).await {
                Ok(()) => {}
                Err(Interrupt::Drained) => return Err(RunExit::LeaveQueued),
                Err(Interrupt::TimedOut(limit_ms, _)) => {
                    let withdrawn = || stores.withdraw_waiting(offer.call, offer.attempt);
                    if self.retried(run, withdrawn).await? {
                        return Err(Failure::no_worker(&offer.tool, &offer.queue, limit_ms).into());
                    }
                }
                Err(interrupt) => return Err(interrupt.into()),
            }
            if watch.is_claimed_here(offer.attempt) {
                return Ok(());
            }
            let mut stored = self.retried(run, || stores.offer_of(offer.call)).await?;
            if stored.is_none() {
                // The database has lost the row in a crash, unless another node has adopted the call and deleted it.
                stored = self.retried(run, || writer.offer(offer.clone())).await?;
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
        access: impl FnMut() -> F,
    ) -> Result<T, RunExit> {
        let work = repeat_until_done(run.id(), "the offer of a call", access);
        self.race(run).work_first().run(work).await.map_err(RunExit::from)
    }

    fn race<'r>(&'r self, run: &'r CallRun) -> Race<'r> {
        Race::new(run.cancel(), self.waiter.shutdown).left_on_drain(run.is_detached(), self.waiter.shutdown)
    }
}

/// Returns the offer of the next attempt.
fn offer_of(run: &CallRun, WorkerTool { entry, spec, .. }: WorkerTool<'_>) -> Offer {
    let call = run.call();
    Offer {
        call: call.id,
        tenant: call.tenant.clone(),
        queue: spec.queue.as_str().into(),
        tool: entry.name.clone(),
        priority: call.priority,
        attempt: call.attempts + 1,
        lease_ms: spec.lease_ms,
        worker: None,
    }
}
