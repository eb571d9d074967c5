//! The lease of the worker that runs an attempt.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use uuid::Uuid;

use crate::engine::inbox::Inbox;
use crate::workqueue::OfferWatch;
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
pub(super) struct LeaseWatch<'a> {
    pub stores: &'a Stores,
    pub inbox: &'a Inbox,
    pub node: &'a Arc<str>,
    pub call: Uuid,
    pub attempt: u32,
    pub then: AfterLease,
    pub slot: ResultSlot,
    pub queue: QueueKey,
    pub watch: Arc<OfferWatch>,
    pub lease: Duration,
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
        let Self { stores, inbox, node, .. } = *self;
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
