//! The last check for a posted result before a call ends without one, so that no acknowledged result is lost.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use uuid::Uuid;

use super::execute::check_output;
use super::inject::ExecutorInputs;
use super::interrupt::{Race, Shutdown};
use super::run::CallRun;
use super::run_exit::RunExit;
use crate::engine::control_message::{self, ControlMessage, WireOutput};
use crate::engine::live::accepts_posted_result;
use crate::registry::Entry;
use toolpost_core::domain::{Failure, IdGenerator, Moment, Outcome, Phase, Status, convert};
use toolpost_store::store::workers::OfferState;
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::{PostedResult, images};

/// Interval between retries while the database is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Looks up a posted result at the end of a call.
pub(super) struct LastResult<'a> {
    pub stores: &'a Stores,
    pub ids: &'a IdGenerator,
    pub node: &'a str,
    pub patience: Duration,
    pub shutdown: &'a Shutdown,
}

/// The end that a call has unless a result was posted.
pub(super) struct MayEnd<'a> {
    pub entry: &'a Entry,
    pub inputs: &'a ExecutorInputs,
    pub outcome: Box<Outcome>,
}

impl LastResult<'_> {
    /// Returns the end of a call: a result that was posted at the last moment takes precedence.
    pub async fn find(&self, run: &mut CallRun, end: MayEnd<'_>, now: Moment) -> RunExit {
        let MayEnd { entry, inputs, outcome } = end;
        let slot = run.posted();
        let mut posted = slot.close_after_posters().await.map(|output| PostedResult { output, digest: slot.digest() });
        if posted.is_none() {
            // If the tool may post a result, the first commit wins: the result, or this end. This costs a failed call
            // one write, because another node may acknowledge a result at any moment before the end is committed.
            let is_handed_out = run.call().phase == Phase::External;
            let may_be_posted = is_handed_out || accepts_posted_result(entry);
            let found = {
                let end = outcome.error.as_ref().filter(|_| may_be_posted);
                let mut lookup = pin!(self.posted_on_disk(run.id(), end));
                match tokio::time::timeout(self.patience, &mut lookup).await {
                    Ok(found) => found,
                    Err(_) => {
                        run.give_up_caller();
                        lookup.await
                    }
                }
            };
            let Some(found) = found else { return RunExit::LeaveQueued };
            posted = found;
        }
        let Some(posted) = posted else { return RunExit::Settle(outcome) };
        if run.call().status == Status::Wait && !run.notice_start(now, true) {
            return RunExit::Settle(outcome);
        }
        run.amend(|call| call.set_posted_result(posted.digest));
        let outcome = inputs.without_secrets(convert::outcome_of(&entry.name, posted.output));
        RunExit::Settle(images::fitted(check_output(entry, Box::new(outcome))).boxed().await)
    }

    /// Records the start of a call that ends before this node has offered it, if a lost node has offered it and a worker
    /// has had it. Returns `true` in this case.
    pub async fn notice_claim(&self, run: &mut CallRun, now: Moment) -> bool {
        if run.call().status != Status::Wait || !run.is_recorded() {
            return false;
        }
        loop {
            match self.had_worker(run.id()).await {
                Ok(had_worker) => return had_worker && run.notice_start(now, false),
                Err(error) => tracing::debug!(id = %run.id(), %error, "cannot look up an offer"),
            }
            if Race::against_stop(self.shutdown).run(tokio::time::sleep(RETRY_INTERVAL)).await.is_err() {
                return false;
            }
        }
    }

    /// Takes over the offer of a lost node. Returns `true` if a worker has had the call; otherwise, none gets it from now on.
    async fn had_worker(&self, call: Uuid) -> Result<bool, StoreError> {
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
    async fn posted_on_disk(&self, call: Uuid, end: Option<&Failure>) -> Option<Option<PostedResult>> {
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
