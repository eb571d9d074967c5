//! The fourth step of a call: the rate limit of its tool, its place in the queue, and the pause of a tool that times out.

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

/// A call that may run as long as this is held.
#[derive(Debug)]
pub(super) struct Admitted {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    pub equipment: ExecutorInputs,
    pub turn: Option<OrderGuard>,
    pub slot: Option<Slot>,
    /// Ends the instance that its tool has for this call alone.
    pub call_end: Option<CallInstanceGuard>,
}

/// Admits calls.
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
    /// Waits until a call may run.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub(super) async fn admit(&self, mut prepared: Prepared) -> Result<Admitted, Executed> {
        let slot = match self.slot_of(&mut prepared).await {
            Ok(slot) => slot,
            Err(end) => return Err(prepared.ended(end)),
        };
        let Prepared { job, entry, equipment, turn, .. } = prepared;
        let call_end = entry.instances.as_ref().map(|pool| CallInstanceGuard::of(pool.clone(), job.call.id));
        if job.begin == StartMode::Start
            && let Some(paused) = self.pauses.of(&job.call.tenant, &entry.name)
        {
            let left_ms = self.pauses.left_ms(&paused);
            let end = Failure::paused(&entry.name, paused.timeouts, left_ms).into();
            return Err(Executed { job, entry: Some(entry), inputs: equipment, turn, instance_guard: call_end, end });
        }
        Ok(Admitted { job, entry, equipment, turn, slot, call_end })
    }

    async fn slot_of(&self, prepared: &mut Prepared) -> Result<Option<Slot>, RunExit> {
        let Prepared { job, entry, place, .. } = prepared;
        if job.handle.cancel.is_cancelled() {
            return Err(Failure::cancelled().into());
        }
        if job.begin == StartMode::Start {
            self.rates.admit(&job.call, entry).map_err(|failure| *failure)?;
        }
        // What few calls come to is boxed: a future is as large as the largest of its parts.
        match place.take().or_else(|| self.queue(job, entry)) {
            Some(place) => Ok(Some(Box::pin(self.slot(job, place)).await?)),
            None => Ok(None),
        }
    }

    /// Returns the place of a call in the queue, if it needs one. Many may run at once.
    pub fn queue(&self, job: &Ongoing, entry: &Entry) -> Option<QueuedSlot> {
        let max_concurrency = job.call.limits.and_then(|limits| limits.max_concurrency);
        // Work that is done outside takes nothing of this node.
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

    /// Waits until the call may run.
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

/// The name of the slots that a call takes.
fn slots_of(call: &Call, entry: &Entry) -> Arc<str> {
    match entry.owner(&call.tenant) {
        Some(owner) => format!("{}\0{}", owner.as_str(), entry.name).into(),
        None => entry.name.clone(),
    }
}
