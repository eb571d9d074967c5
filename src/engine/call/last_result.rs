//! The end of a call whose result might have been posted: nothing that was acknowledged is lost.

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

/// Between two tries while the database is away.
const AGAIN: Duration = Duration::from_millis(500);

/// Looks for a posted result at the end of a call.
#[derive(Debug)]
pub(super) struct LastResult<'a> {
    pub stores: &'a Stores,
    pub ids: &'a IdGenerator,
    pub node: &'a str,
    pub patience: Duration,
    pub shutdown: &'a Shutdown,
}

impl LastResult<'_> {
    /// How a call ends that is about to end with `outcome`, without a posted result: with the result that was posted in the
    /// last moment, if there is one.
    pub async fn find(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        equipment: &ExecutorInputs,
        outcome: Box<Outcome>,
    ) -> RunExit {
        let posted = match job.handle.outside.close_after_posters().await {
            Some(posted) => Some(posted),
            None => {
                let mut patience = pin!(tokio::time::sleep(self.patience));
                let found = {
                    let mut looking = pin!(self.posted_on_disk(&job.call, job.begin, entry, &outcome));
                    tokio::select! {
                        found = &mut looking => found,
                        () = &mut patience => {
                            job.recorder.give_up_caller();
                            looking.await
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
        let outcome = equipment.without_secrets(convert::outcome_of(&entry.name, posted));
        RunExit::Settle(images::fitted(check_output(entry, Box::new(outcome))).boxed().await)
    }

    /// The result that is on disk, if there is one. A database that is away is waited for, up to the end of the service; then
    /// the call is left to the next start: `None`.
    async fn posted_on_disk(
        &self,
        call: &Call,
        begin: StartMode,
        entry: &Entry,
        outcome: &Outcome,
    ) -> Option<Option<ToolOutput>> {
        loop {
            match self.look_for_result(call, begin, entry, outcome).await {
                Ok(found) => return Some(found),
                Err(error) => tracing::debug!(id = %call.id, %error, "a posted result cannot be looked for"),
            }
            Race::against_stop(self.shutdown).run(tokio::time::sleep(AGAIN)).await.ok()?;
        }
    }

    async fn look_for_result(
        &self,
        call: &Call,
        begin: StartMode,
        entry: &Entry,
        outcome: &Outcome,
    ) -> Result<Option<ToolOutput>, StoreError> {
        // Where the tool may post a result, the first one to be on disk counts: a result, or this end. It costs a failed call
        // one write, as another node may acknowledge a result at any moment before the end is on disk.
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
