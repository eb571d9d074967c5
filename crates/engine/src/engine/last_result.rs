//! What the database knows of a call that is about to end: a result that was posted, or a worker that had the call.

use std::time::Duration;

use uuid::Uuid;

use super::control_message::{self, ControlMessage, WireOutput};
use crate::interrupt::{Race, Shutdown};
use toolpost_core::domain::{Failure, IdGenerator};
use toolpost_store::store::workers::OfferState;
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::PostedResult;

/// Interval between retries while the database is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Looks up what other nodes have stored for a call that is about to end.
pub(super) struct LastResult<'a> {
    pub stores: &'a Stores,
    pub ids: &'a IdGenerator,
    pub node: &'a str,
    pub shutdown: &'a Shutdown,
}

impl LastResult<'_> {
    /// Returns `true` if a lost node has offered a call and a worker has had it. Retries while the database is unavailable, and
    /// returns `false` if the service stops before that.
    pub async fn had_worker(&self, call: Uuid) -> bool {
        loop {
            match self.find_worker(call).await {
                Ok(had_worker) => return had_worker,
                Err(error) => tracing::debug!(id = %call, %error, "cannot look up an offer"),
            }
            if Race::against_stop(self.shutdown).run(tokio::time::sleep(RETRY_INTERVAL)).await.is_err() {
                return false;
            }
        }
    }

    /// Takes over the offer of a lost node. Returns `true` if a worker has had the call; otherwise, none gets it from now on.
    async fn find_worker(&self, call: Uuid) -> Result<bool, StoreError> {
        match self.stores.take_over_offer(call, self.node).await? {
            Some(offer) if offer.state == OfferState::Waiting => {
                // A worker may claim it at any moment.
                Ok(!self.stores.withdraw_unclaimed(call, self.node).await?)
            }
            offer => Ok(offer.is_some()),
        }
    }

    /// Returns the stored result, if any. Retries while the database is unavailable. Returns `None` if the service
    /// stops before that, so that the call is left to the next start.
    pub async fn posted(&self, call: Uuid, end: Option<&Failure>) -> Option<Option<PostedResult>> {
        loop {
            match self.find_posted(call, end).await {
                Ok(found) => return Some(found),
                Err(error) => tracing::debug!(id = %call, %error, "cannot look up a posted result"),
            }
            Race::against_stop(self.shutdown).run(tokio::time::sleep(RETRY_INTERVAL)).await.ok()?;
        }
    }

    /// Returns the stored result, if any. Otherwise, later results are rejected if the call ends with the failure `end`.
    async fn find_posted(&self, call: Uuid, end: Option<&Failure>) -> Result<Option<PostedResult>, StoreError> {
        let found = match end {
            None => self.stores.posted_result(call).await?,
            Some(failure) => {
                let (failure, text) = (failure.clone(), failure.text.clone());
                let answer = WireOutput::Failure { failure, text };
                let end = ControlMessage::Result { answer, digest: None }.message(call)?;
                self.stores.refuse_results(self.ids.next(), &end, self.node).await?
            }
        };
        match found.as_deref().map(serde_json::from_str) {
            Some(Ok(ControlMessage::Result { answer, digest })) => {
                Ok(Some(control_message::posted_result(answer, digest)))
            }
            _ => Ok(None),
        }
    }
}
