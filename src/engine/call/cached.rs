//! Results that are known already: an equal call of before, or one that runs right now, spares a run.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::interrupt::{ANNOUNCE_AFTER, Deadline, Race, Shutdown};
use super::prepare::Prepared;
use super::state::{Ongoing, RunExit, StartMode};
use crate::dispatch::QueuedSlot;
use crate::domain::call::CacheControl;
use crate::domain::tool::CacheSpec;
use crate::domain::{Clock, Failure, Outcome};
use crate::engine::live::LiveCalls;

mod key;
mod results;
mod weight;

pub(in crate::engine) use results::Results;
use results::{CacheLookup, InFlightRun};

/// Finds the result of an equal call for a call of a tool whose good results are kept.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub results: &'a Results,
    pub clock: &'a Clock,
    pub live: &'a LiveCalls,
    pub shutdown: &'a Shutdown,
}

/// What a [`Lookup`] found.
pub(super) enum Looked<'a> {
    /// The result of an equal call, which the call has taken over.
    Kept(Box<Outcome>),
    /// No result: the call runs, and its good result goes to the flight, if there is one.
    Run(Option<InFlightRun<'a>>),
}

impl<'a> Lookup<'a> {
    /// Finds the result of an equal call of before, or waits for that of one that runs right now.
    ///
    /// # Errors
    /// Returns the reason why the call ended while it waited.
    pub async fn find(&self, prepared: &mut Prepared, cache: CacheSpec) -> Result<Looked<'a>, RunExit> {
        // What has begun already goes on; its result may have changed the world in between.
        let Prepared { job, entry, equipment, place, .. } = prepared;
        let is_bypassed = job.begin != StartMode::Start || job.call.cache_control == CacheControl::NoStore;
        let key = key::of(job, equipment, entry, cache.scope).filter(|_| !is_bypassed && self.results.is_on());
        let Some(key) = key else { return Ok(Looked::Run(None)) };
        let flight = match job.call.cache_control {
            CacheControl::Any => match self.results.lookup(key).await {
                CacheLookup::Hit(outcome) => return self.take_over(job, &outcome),
                CacheLookup::Leader(flight) => flight,
                CacheLookup::Follower(leader) => match self.follow(job, place, leader).await? {
                    Some(outcome) => return self.take_over(job, &outcome),
                    None => self.results.alone(key),
                },
            },
            _ => self.results.alone(key),
        };
        Ok(Looked::Run(Some(flight)))
    }

    /// The result of an earlier call becomes this call's own.
    fn take_over(&self, job: &mut Ongoing, outcome: &Outcome) -> Result<Looked<'a>, RunExit> {
        let name = job.call.name.clone();
        job.call.take_over(self.clock.moment()).map_err(|error| Failure::execution(&name, error.to_string()))?;
        Ok(Looked::Kept(Box::new(outcome.clone())))
    }

    /// Waits, within the call's own clocks, for an equal call that runs. `None` if that has no good result.
    async fn follow(
        &self,
        job: &mut Ongoing,
        place: &mut Option<QueuedSlot>,
        leader: watch::Receiver<Option<Arc<Outcome>>>,
    ) -> Result<Option<Arc<Outcome>>, RunExit> {
        // A place in the queue would hold up the very call that it waits for.
        *place = None;
        let limits = job.call.limits;
        let waited_ms = job.call.waited_ms(self.clock.moment());
        let timeout = limits.and_then(|limits| Deadline::of(limits.timeout_ms, 0, "timeout_ms"));
        let queue_timeout = limits.and_then(|limits| limits.queue_timeout_ms);
        let queue_timeout = queue_timeout.and_then(|limit_ms| Deadline::of(limit_ms, waited_ms, "queue_timeout_ms"));
        let deadline = timeout.map(|timeout| timeout.earlier(queue_timeout)).or(queue_timeout);
        let announce_at = (!job.recorder.has_announced()).then(|| Instant::now() + ANNOUNCE_AFTER);
        let (cancel, is_left) = (job.handle.cancel.clone(), job.is_queued);
        let race = Race::new(&cancel, self.shutdown).left_on_drain(is_left, self.shutdown).until(deadline);
        Ok(race.run_announcing(announce_at, job.publish_status(self.live), landed(leader)).await?)
    }
}

/// The good result of a run, once it is there; `None` if there is none.
async fn landed(mut leader: watch::Receiver<Option<Arc<Outcome>>>) -> Option<Arc<Outcome>> {
    leader.wait_for(Option::is_some).await.ok()?.clone()
}
