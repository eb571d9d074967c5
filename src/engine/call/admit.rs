//! Step 4, admit: applies the rate limit of the tool, waits for a slot, and rejects calls of a paused tool.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::inject::ExecutorInputs;
use super::interrupt::{ANNOUNCE_AFTER, Deadline, Race, Shutdown};
use super::prepare::Prepared;
use super::state::{Executed, Ongoing, RunExit, StartMode};
use crate::dispatch::{QueuedSlot, Slot, SlotRequest, Slots};
use crate::domain::{Call, Clock, Failure};
use crate::engine::call_order::OrderGuard;
use crate::engine::live::LiveCalls;
use crate::engine::pauses::Pauses;
use crate::engine::rates::Rates;
use crate::executor::instances::CallInstanceGuard;
use crate::registry::Entry;
use crate::telemetry::Metrics;

/// A call that may run. It occupies its slot until this value is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    pub inputs: ExecutorInputs,
    pub turn: Option<OrderGuard>,
    pub slot: Option<Slot>,
    /// Ends the tool's instance of this call when dropped.
    pub instance_guard: Option<CallInstanceGuard>,
}

/// The fourth step of a call.
#[derive(Debug)]
pub(in crate::engine) struct Admitter<'a> {
    pub rates: &'a Rates,
    pub slots: &'a Slots,
    pub pauses: &'a Pauses,
    pub clock: &'a Clock,
    pub metrics: &'a Metrics,
    pub live: &'a LiveCalls,
    pub shutdown: &'a Shutdown,
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
        let Prepared { job, entry, inputs, turn, .. } = prepared;
        let instance_guard = entry.instances.as_ref().map(|pool| CallInstanceGuard::of(pool.clone(), job.call.id));
        if job.begin == StartMode::Start
            && let Some(paused) = self.pauses.of(&job.call.tenant, &entry.name)
        {
            let left_ms = self.pauses.left_ms(&paused);
            let end = Failure::paused(&entry.name, paused.timeouts, left_ms).into();
            return Err(Executed { job, entry: Some(entry), inputs, turn, instance_guard, end });
        }
        Ok(Admitted { job, entry, inputs, turn, slot, instance_guard })
    }

    /// Applies the rate limit, and waits for a slot if the call needs one.
    async fn slot_of(&self, prepared: &mut Prepared) -> Result<Option<Slot>, RunExit> {
        let Prepared { job, entry, place, .. } = prepared;
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
        let tool = slots_of(&job.call, entry);
        Some(self.slots.queue(SlotRequest {
            tool,
            max_concurrency,
            counts,
            priority: job.call.priority,
            call: job.call.id,
        }))
    }

    /// Waits for the slot of a queued call, until an interrupt or the queue timeout.
    async fn slot(&self, job: &mut Ongoing, mut place: QueuedSlot) -> Result<Slot, RunExit> {
        let waited_ms = job.call.waited_ms(self.clock.moment());
        let queue_timeout = job.call.limits.and_then(|limits| limits.queue_timeout_ms);
        let queue_timeout = queue_timeout.filter(|_| job.begin == StartMode::Start);
        let deadline = queue_timeout.and_then(|limit_ms| Deadline::of(limit_ms, waited_ms, "queue_timeout_ms"));
        let announce_at = (!job.recorder.has_announced()).then(|| Instant::now() + ANNOUNCE_AFTER);
        let (cancel, is_left) = (job.handle.cancel.clone(), job.is_queued);
        let race = Race::new(&cancel, self.shutdown).left_on_drain(is_left, self.shutdown).until(deadline);
        let slot = race.run_announcing(announce_at, job.publish_status(self.live), place.slot()).await?;
        if job.begin == StartMode::Start {
            let waited_ms = job.call.waited_ms(self.clock.moment());
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
