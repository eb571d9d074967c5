//! The last check for a posted result before a call ends without one, so that no acknowledged result is lost.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;

use super::inject::ExecutorInputs;
use super::interrupt::{Race, Shutdown};
use super::output::check_output;
use super::state::{Ongoing, RunExit, StartMode};
use crate::domain::{Call, IdGenerator, Outcome, Phase, ToolOutput, convert};
use crate::engine::control_message::{ControlMessage, WireOutput};
use crate::executor::images;
use crate::registry::Entry;
use crate::store::{StoreError, Stores};

/// Interval between retries while the database is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Looks up a posted result at the end of a call.
#[derive(Debug)]
pub(super) struct LastResult<'a> {
    pub stores: &'a Stores,
    pub ids: &'a IdGenerator,
    pub node: &'a str,
    pub patience: Duration,
    pub shutdown: &'a Shutdown,
}

impl LastResult<'_> {
    /// Returns the end of a call that would end with `outcome`: a result that was posted at the last moment takes
    /// precedence.
    pub async fn find(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        inputs: &ExecutorInputs,
        outcome: Box<Outcome>,
    ) -> RunExit {
        let posted = match job.handle.outside.close_after_posters().await {
            Some(posted) => Some(posted),
            None => {
                let mut patience = pin!(tokio::time::sleep(self.patience));
                let found = {
                    let mut lookup = pin!(self.posted_on_disk(&job.call, job.begin, entry, &outcome));
                    tokio::select! {
                        found = &mut lookup => found,
                        () = &mut patience => {
                            job.recorder.give_up_caller();
                            lookup.await
                        }
                    }
                };
                match found {
                    Some(found) => found,
                    None => return RunExit::LeaveQueued,
                }
            }
        };
        let Some(posted) = posted else { return RunExit::Settle(outcome) };
        job.call.set_posted_result();
        let outcome = inputs.without_secrets(convert::outcome_of(&entry.name, posted));
        RunExit::Settle(images::fitted(check_output(entry, Box::new(outcome))).boxed().await)
    }

    /// Returns the stored result, if any. Retries while the database is unavailable. Returns `None` if the service
    /// stops before that, so that the call is left to the next start.
    async fn posted_on_disk(
        &self,
        call: &Call,
        begin: StartMode,
        entry: &Entry,
        outcome: &Outcome,
    ) -> Option<Option<ToolOutput>> {
        loop {
            match self.find_posted(call, begin, entry, outcome).await {
                Ok(found) => return Some(found),
                Err(error) => tracing::debug!(id = %call.id, %error, "cannot look up a posted result"),
            }
            Race::against_stop(self.shutdown).run(tokio::time::sleep(RETRY_INTERVAL)).await.ok()?;
        }
    }

    async fn find_posted(
        &self,
        call: &Call,
        begin: StartMode,
        entry: &Entry,
        outcome: &Outcome,
    ) -> Result<Option<ToolOutput>, StoreError> {
        // If the tool may post a result, the first commit wins: the result, or this end. This costs a failed call one
        // write, because another node may acknowledge a result at any moment before the end is committed.
        let may_post = entry.works_outside() || entry.definition.has_token();
        let is_handed_out = call.phase == Phase::External || begin == StartMode::Lost || may_post;
        let found = match outcome.error.as_ref().filter(|_| is_handed_out) {
            None => self.stores.posted_result(call.id).await?,
            Some(failure) => {
                let (failure, text) = (failure.clone(), failure.text.clone());
                let end = ControlMessage::Result { answer: WireOutput::Failure { failure, text } }.message(call.id)?;
                self.stores.refuse_results(self.ids.next(), &end, self.node).await?
            }
        };
        match found.as_deref().map(serde_json::from_str) {
            Some(Ok(ControlMessage::Result { answer })) => Ok(Some(answer.into())),
            _ => Ok(None),
        }
    }
}
