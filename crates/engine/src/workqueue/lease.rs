//! The lease of the worker that runs an attempt.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use uuid::Uuid;

use super::OfferWatch;
use toolpost_store::store::signals::QueueKey;
use toolpost_store::store::workers::{AfterLease, OfferState};
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::ResultSlot;

/// Pause after a failed access to the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Pause after a lease was found expired but did not end.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Longest time between two looks at the row of an offer whose worker has given it back.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The lease of the worker that runs an attempt.
pub(crate) struct Lease<'a> {
    pub stores: &'a Stores,
    pub node: &'a Arc<str>,
    pub call: Uuid,
    pub attempt: u32,
    pub then: AfterLease,
    pub slot: ResultSlot,
    pub queue: QueueKey,
    pub watch: Arc<OfferWatch>,
    pub duration: Duration,
}

/// A watch of a lease.
pub(crate) struct LeaseWatch<'a> {
    lease: Lease<'a>,
    /// The time until the next look at the row. `None` means now.
    left: Option<Duration>,
}

impl<'a> LeaseWatch<'a> {
    /// Begins to watch a lease.
    pub fn new(lease: Lease<'a>) -> Self {
        // A claim at this node has just begun, so its row need not be read.
        let left = lease.watch.is_claimed_here(lease.attempt).then_some(lease.duration);
        if left.is_some() {
            // The wake-up that reported the claim.
            let _ = lease.watch.changed().now_or_never();
            lease.watch.watch_lease(lease.attempt);
        }
        Self { lease, left }
    }

    /// Watches the lease until the worker may have answered. If the lease expires, takes the call from the worker and ends its
    /// attempt.
    pub async fn await_answer(&mut self) {
        loop {
            let until = Instant::now() + self.left.unwrap_or(Duration::ZERO).min(MAX_SLEEP);
            tokio::select! {
                () = self.lease.watch.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
            let (left, is_answered) = match self.lease.look().await {
                Ok(Look::Answered) => (MAX_SLEEP, true),
                Ok(Look::After(left)) => (left, false),
                Err(error) => {
                    tracing::debug!(id = %self.lease.call, %error, "cannot read the lease of a worker");
                    (RETRY_AFTER, false)
                }
            };
            self.left = Some(left);
            if is_answered {
                return;
            }
        }
    }
}

/// What the row of an offer says about its lease.
enum Look {
    /// The worker has answered.
    Answered,
    /// Nothing changes before this time has passed, unless the watch reports a change.
    After(Duration),
}

impl Lease<'_> {
    /// Reads the row, and ends a lease that has expired.
    async fn look(&self) -> Result<Look, StoreError> {
        let Self { stores, node, .. } = *self;
        let row = {
            // The attempt may end meanwhile, and a statement that is dropped costs its connection.
            let (stores, call) = (stores.clone(), self.call);
            tokio::spawn(async move { stores.offer_of(call).await }).await
        };
        // The runtime ends.
        let Ok(row) = row else { return Ok(Look::After(RETRY_AFTER)) };
        let row = row?;
        match row.filter(|row| row.attempt == self.attempt).map(|row| row.state) {
            Some(OfferState::Answered) => Ok(Look::Answered),
            Some(OfferState::Claimed { left, .. }) if left.is_zero() => {
                if !self.watch.refuse_results(|| self.slot.has_result()) {
                    return Ok(Look::After(MAX_SLEEP));
                }
                let has_expired = stores.expire_lease((self.call, self.attempt), node, self.then).await?;
                if has_expired {
                    tracing::info!(id = %self.call, attempt = self.attempt, "a worker has lost a call");
                    stores.signals().notify_work(&self.queue.0, &self.queue.1);
                    self.slot.lose();
                }
                // Otherwise a heartbeat came first, or the start is still being recorded.
                Ok(Look::After(if has_expired { MAX_SLEEP } else { LOOK_AGAIN_AFTER }))
            }
            Some(OfferState::Claimed { left, .. }) => {
                self.watch.watch_lease(self.attempt);
                Ok(Look::After(left))
            }
            // Its worker did not receive it, and another one gets the same attempt.
            Some(OfferState::Waiting) => Ok(Look::After(MAX_SLEEP)),
            None => {
                self.slot.lose();
                Ok(Look::After(MAX_SLEEP))
            }
        }
    }
}
