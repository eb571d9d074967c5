//! Reuse of results: a call of a tool with a `cache` takes the result of an equal call that has ended or still runs.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::Prepared;
use super::wait::Waiter;
use crate::dispatch::QueuedSlot;
use crate::interrupt::{ANNOUNCE_AFTER, Deadline};
use crate::result_cache::{CacheLookup, InFlightRun, Results, key_of};
use toolpost_core::domain::Outcome;
use toolpost_core::domain::call::CacheControl;
use toolpost_core::domain::tool::CacheSpec;

/// A lookup of the cached result of an equal call.
pub(super) struct Lookup<'a> {
    pub results: &'a Results,
    pub waiter: Waiter<'a>,
}

/// The result of a [`Lookup`].
pub(super) enum CacheResult<'a> {
    /// The outcome of an equal call.
    Kept(Box<Outcome>),
    /// No outcome: the call must run. If it succeeds, its outcome is inserted into the given run.
    Run(Option<InFlightRun<'a>>),
}

impl<'a> Lookup<'a> {
    /// Finds the result of an equal call, or waits for an equal call that runs.
    ///
    /// # Errors
    /// Returns the reason why the call ended while it waited.
    pub async fn find(&self, prepared: &mut Prepared, cache: CacheSpec) -> Result<CacheResult<'a>, RunExit> {
        let Prepared { run, entry, inputs, queued } = prepared;
        let cache_control = run.call().cache_control;
        let is_used = self.results.is_on() && cache_control != CacheControl::NoStore;
        let key = key_of(run.call(), run.session_since(), inputs, entry, cache.scope).filter(|_| is_used);
        let Some(key) = key else { return Ok(CacheResult::Run(None)) };
        let leading = match cache_control {
            CacheControl::Any => match self.results.lookup(key).await {
                CacheLookup::Hit(outcome) => return self.take_over(run, &outcome),
                CacheLookup::Leader(leading) => leading,
                CacheLookup::Follower(leader) => match self.follow(run, queued, leader).await? {
                    Some(outcome) => return self.take_over(run, &outcome),
                    None => self.results.alone(key),
                },
            },
            _ => self.results.alone(key),
        };
        Ok(CacheResult::Run(Some(leading)))
    }

    /// Ends the call with the outcome of an equal call.
    fn take_over(&self, run: &mut CallRun, outcome: &Outcome) -> Result<CacheResult<'a>, RunExit> {
        run.take_over_result(self.waiter.clock.moment())?;
        Ok(CacheResult::Kept(Box::new(outcome.clone())))
    }

    /// Waits for an equal call that runs, within the timeouts of this call. Returns `None` if that call does not
    /// succeed.
    async fn follow(
        &self,
        run: &mut CallRun,
        queued: &mut Option<QueuedSlot>,
        leader: watch::Receiver<Option<Arc<Outcome>>>,
    ) -> Result<Option<Arc<Outcome>>, RunExit> {
        // A place in the queue could block the very call that this call waits for.
        *queued = None;
        let timeout = run.call().limits.and_then(|limits| Deadline::of(limits.timeout_ms, 0, "timeout_ms"));
        let queue_timeout = self.waiter.queue_deadline(run.call());
        let deadline = timeout.into_iter().chain(queue_timeout).min_by_key(|deadline| deadline.at);
        let announce_at = Instant::now() + ANNOUNCE_AFTER;
        Ok(self.waiter.wait(run, announce_at, deadline, wait_for_leader(leader)).await?)
    }
}

/// Waits for the outcome of a run. Returns `None` if the run does not succeed.
async fn wait_for_leader(mut leader: watch::Receiver<Option<Arc<Outcome>>>) -> Option<Arc<Outcome>> {
    leader.wait_for(Option::is_some).await.ok()?.clone()
}
