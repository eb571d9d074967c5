//! Waits of a call before it runs: a long wait is announced to subscribers, and any interruption ends it.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::run::CallRun;
use crate::interrupt::{Deadline, Interrupt, Race, Shutdown};
use toolpost_core::domain::{Call, Clock};

/// Pause after a failed access to the database.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Repeats an access of a call to the database until it succeeds. `what` is accessed.
pub(super) async fn repeat_until_done<T, E: Display, F: Future<Output = Result<T, E>>>(
    id: Uuid,
    what: &str,
    mut access: impl FnMut() -> F,
) -> T {
    loop {
        match access().await {
            Ok(done) => return done,
            Err(error) => {
                tracing::debug!(%id, %error, "cannot read or write {what}");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// The parts of a node that waiting calls use.
#[derive(Clone, Copy)]
pub(super) struct Waiter<'a> {
    pub clock: &'a Clock,
    pub shutdown: &'a Shutdown,
}

impl Waiter<'_> {
    /// Returns the end of the call's queue timeout, which begins with its acceptance. `None` if it has no timeout.
    pub fn queue_deadline(&self, call: &Call) -> Option<Deadline> {
        let limit_ms = call.limits?.queue_timeout_ms?;
        let waited = call.waited_ms(self.clock.moment());
        // The clock does not run while a person decides. A remembered decision can be older than the call.
        let since_decision = call.approval.as_ref().and_then(|approval| approval.waited_ms(self.clock.now()));
        let spent = since_decision.map_or(waited, |since| since.min(waited));
        Deadline::of(limit_ms, spent, "queue_timeout_ms")
    }

    /// Waits for the work, or until the call is interrupted. If the wait lasts until `announce_at`, the call is
    /// announced.
    ///
    /// # Errors
    /// Returns the first [`Interrupt`].
    pub async fn wait<T>(
        &self,
        run: &mut CallRun,
        announce_at: Instant,
        deadline: Option<Deadline>,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        let announce_at = (!run.is_announced()).then_some(announce_at);
        let (cancel, is_left) = (run.cancel().clone(), run.is_detached());
        let race = Race::new(&cancel, self.shutdown).left_on_drain(is_left, self.shutdown).until(deadline);
        race.run_announcing(announce_at, run.announce(), work).await
    }
}
