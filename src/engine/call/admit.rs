//! Step 4, admit: applies the rate limit of the tool, waits for a slot, and rejects calls of a paused tool.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::interrupt::ANNOUNCE_AFTER;
use super::state::{Executed, Ongoing, Prepared, RunExit, StartMode};
use super::wait::Waiter;
use crate::dispatch::{QueuedSlot, Slot, SlotRequest, Slots};
use crate::domain::{Call, Failure};
use crate::engine::pauses::Pauses;
use crate::engine::rates::Rates;
use crate::executor::instances::CallInstanceGuard;
use crate::registry::Entry;
use crate::telemetry::Metrics;

/// A call that may run. It occupies its slot until this value is dropped.
pub(super) struct Admitted {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    pub slot: Option<Slot>,
}

/// The fourth step of a call.
pub(in crate::engine) struct Admitter<'a> {
    pub rates: &'a Rates,
    pub slots: &'a Slots,
    pub pauses: &'a Pauses,
    pub metrics: &'a Metrics,
    pub(super) waiter: Waiter<'a>,
}

impl Admitter<'_> {
    /// Waits until the call may run.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub(super) async fn admit(&self, mut prepared: Prepared) -> Result<Admitted, Executed> {
        let slot = match self.slot_of(&mut prepared).await {
            Ok(slot) => slot,
            Err(end) => return Err(prepared.ended(end)),
        };
        let Prepared { job, entry, .. } = &mut prepared;
        job.instance_guard = entry.instances.clone().map(|pool| CallInstanceGuard { pool, call: job.call.id });
        if job.begin == StartMode::Start
            && let Some(paused) = self.pauses.of(&job.call.tenant, &entry.name)
        {
            let failure = Failure::paused(&entry.name, paused.timeouts, self.pauses.left_ms(&paused));
            return Err(prepared.ended(failure.into()));
        }
        let Prepared { job, entry, .. } = prepared;
        Ok(Admitted { job, entry, slot })
    }

    /// Applies the rate limit, and waits for a slot if the call needs one.
    async fn slot_of(&self, prepared: &mut Prepared) -> Result<Option<Slot>, RunExit> {
        let Prepared { job, entry, place } = prepared;
        if job.handle.cancel.is_cancelled() {
            return Err(Failure::cancelled().into());
        }
        if job.begin == StartMode::Start {
            self.rates.admit(&job.call, entry).map_err(|failure| *failure)?;
        }
        // Boxed because few calls need a slot, and a future is as large as its largest branch.
        match place.take().or_else(|| self.queue(job, entry)) {
            Some(place) => Ok(Some(Box::pin(self.slot(job, place)).await?)),
            None => Ok(None),
        }
    }

    /// Enters the call in the queue. Returns `None` if the call needs no slot: it is not detached, and its tool has no
    /// concurrency limit.
    pub fn queue(&self, job: &Ongoing, entry: &Entry) -> Option<QueuedSlot> {
        let max_concurrency = job.call.limits.and_then(|limits| limits.max_concurrency);
        // A call that is worked on outside this process uses no capacity of this node.
        let counts = job.is_queued && !entry.works_outside();
        if max_concurrency.is_none() && !counts {
            return None;
        }
        let (tool, priority) = (slots_of(&job.call, entry), job.call.priority);
        Some(self.slots.queue(SlotRequest { tool, max_concurrency, counts, priority, call: job.call.id }))
    }

    /// Waits for the slot of a queued call, until an interrupt or the queue timeout.
    async fn slot(&self, job: &mut Ongoing, mut place: QueuedSlot) -> Result<Slot, RunExit> {
        let is_new = job.begin == StartMode::Start;
        let deadline = self.waiter.queue_deadline(&job.call).filter(|_| is_new);
        let slot = self.waiter.wait(job, Instant::now() + ANNOUNCE_AFTER, deadline, place.slot()).await?;
        if is_new {
            let waited_ms = job.call.waited_ms(self.waiter.clock.moment());
            self.metrics.waited(Duration::from_millis(waited_ms));
        }
        Ok(slot)
    }
}

/// Returns the name under which slots of the tool are counted: tools of a tenant are counted separately.
fn slots_of(call: &Call, entry: &Entry) -> Arc<str> {
    match entry.owner(&call.tenant) {
        Some(owner) => format!("{}\0{}", owner.as_str(), entry.name).into(),
        None => entry.name.clone(),
    }
}
