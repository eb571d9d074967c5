//! Step 4, admit: applies the rate limit of the tool, waits for a slot, and rejects calls of a paused tool.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::{Admitted, Executed, Prepared};
use super::wait::Waiter;
use crate::dispatch::Rates;
use crate::dispatch::{QueuedSlot, Slot, SlotRequest, Slots};
use crate::interrupt::{ANNOUNCE_AFTER, Deadline};
use crate::pauses::Pauses;
use crate::registry::Entry;
use toolpost_core::domain::{Call, Failure};
use toolpost_telemetry::Metrics;
use toolpost_tool::executor::instances::CallInstanceGuard;

/// The fourth step of a call.
pub(in crate::engine) struct Admitter<'a> {
    pub rates: &'a Rates,
    pub slots: &'a Slots,
    pub pauses: &'a Pauses,
    pub metrics: &'a Metrics,
    pub(super) waiter: Waiter<'a>,
}

impl Admitter<'_> {
    /// Waits until a new call may run.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub(super) async fn admit(&self, mut prepared: Prepared) -> Result<Admitted, Executed> {
        let slot = match self.slot_of(&mut prepared).await {
            Ok(slot) => slot,
            Err(end) => return Err(prepared.ended(end)),
        };
        if let Some(paused) = self.pauses.of(&prepared.run.call().tenant, &prepared.entry.name) {
            let failure = Failure::paused(&prepared.entry.name, paused.timeouts, self.pauses.left_ms(&paused));
            return Err(prepared.ended(failure.into()));
        }
        Ok(admitted(prepared, slot))
    }

    /// Waits until a resumed call may run, which was admitted before.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub(super) async fn admit_again(&self, mut prepared: Prepared) -> Result<Admitted, Executed> {
        match self.slot_again(&mut prepared).await {
            Ok(slot) => Ok(admitted(prepared, slot)),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Applies the rate limit, and waits for a slot if the call needs one.
    async fn slot_of(&self, prepared: &mut Prepared) -> Result<Option<Slot>, RunExit> {
        let Prepared { run, entry, queued, .. } = prepared;
        if run.cancel().is_cancelled() {
            return Err(Failure::cancelled().into());
        }
        self.rates.admit(run.call(), entry).map_err(|failure| *failure)?;
        let Some(queued) = queued.take().or_else(|| self.queue(run, entry)) else { return Ok(None) };
        let deadline = self.waiter.queue_deadline(run.call());
        // Boxed because few calls need a slot, and a future is as large as its largest branch.
        let slot = Box::pin(self.slot(run, queued, deadline)).await?;
        let waited_ms = run.call().waited_ms(self.waiter.clock.moment());
        self.metrics.waited(Duration::from_millis(waited_ms));
        Ok(Some(slot))
    }

    async fn slot_again(&self, prepared: &mut Prepared) -> Result<Option<Slot>, RunExit> {
        let Prepared { run, entry, queued, .. } = prepared;
        if run.cancel().is_cancelled() {
            return Err(Failure::cancelled().into());
        }
        match queued.take().or_else(|| self.queue(run, entry)) {
            Some(queued) => Ok(Some(Box::pin(self.slot(run, queued, None)).await?)),
            None => Ok(None),
        }
    }

    /// Enters the call in the queue. Returns `None` if the call needs no slot: it is not detached, and its tool has no
    /// concurrency limit.
    pub fn queue(&self, run: &CallRun, entry: &Entry) -> Option<QueuedSlot> {
        let call = run.call();
        let max_concurrency = call.limits.and_then(|limits| limits.max_concurrency);
        // A call that is worked on outside this process uses no capacity of this node.
        let counts = run.is_detached() && !entry.works_outside();
        if max_concurrency.is_none() && !counts {
            return None;
        }
        let (tool, priority) = (slots_of(call, entry), call.priority);
        Some(self.slots.queue(SlotRequest { tool, max_concurrency, counts, priority, call: call.id }))
    }

    /// Waits for the slot of a queued call, until an interrupt or the deadline.
    async fn slot(
        &self,
        run: &mut CallRun,
        mut queued: QueuedSlot,
        deadline: Option<Deadline>,
    ) -> Result<Slot, RunExit> {
        Ok(self.waiter.wait(run, Instant::now() + ANNOUNCE_AFTER, deadline, queued.slot()).await?)
    }
}

fn admitted(prepared: Prepared, slot: Option<Slot>) -> Admitted {
    let Prepared { mut run, entry, inputs, .. } = prepared;
    if let Some(pool) = entry.instances.clone() {
        // Ends the tool's instance of this call when the call is settled.
        let guard = CallInstanceGuard { pool, call: run.id() };
        run.keep_guard(guard);
    }
    Admitted { run, entry, inputs, slot }
}

/// Returns the name under which slots of the tool are counted: tools of a tenant are counted separately.
fn slots_of(call: &Call, entry: &Entry) -> Arc<str> {
    match entry.owner(&call.tenant) {
        Some(owner) => format!("{}\0{}", owner.as_str(), entry.name).into(),
        None => entry.name.clone(),
    }
}
