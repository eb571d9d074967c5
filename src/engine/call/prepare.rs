//! The third step of a call: its arguments are complete, its hooks are asked, and it gets what it runs with.

use std::sync::Arc;

use super::collect_arguments::Gatherer;
use super::hooks::CallHooks;
use super::inject::{Equipper, ExecutorInputs};
use super::state::{Disposition, Executed, Ongoing, Planned, RunExit, StartMode};
use crate::dispatch::QueuedSlot;
use crate::domain::Failure;
use crate::engine::call_order::OrderGuard;
use crate::registry::Entry;

/// A call that is ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    /// What only its executor sees.
    pub equipment: ExecutorInputs,
    /// Its place in the queue, where it was taken beforehand.
    pub place: Option<QueuedSlot>,
    /// Its turn among the calls of one stream.
    pub turn: Option<OrderGuard>,
}

impl Prepared {
    /// Ends the call before it was admitted.
    pub fn ended(self, end: RunExit) -> Executed {
        let Self { job, entry, equipment, turn, .. } = self;
        Executed { job, entry: Some(entry), inputs: equipment, turn, instance_guard: None, end }
    }
}

/// Prepares calls.
#[derive(Debug)]
pub(super) struct Preparer<'a> {
    pub gatherer: Gatherer<'a>,
    pub hooks: CallHooks<'a>,
    pub equipper: Equipper<'a>,
}

impl Preparer<'_> {
    /// Prepares a call.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub async fn prepare(&self, mut planned: Planned) -> Result<Prepared, Executed> {
        let mut turn = None;
        if let Some(draft) = planned.ongoing.handle.draft.clone() {
            // Boxed: few calls come this way.
            match Box::pin(self.gatherer.collect_arguments(&mut planned, &draft)).await {
                Ok(permit) => turn = permit,
                Err(end) => return Err(planned.ended(end)),
            }
        }
        let entry = match &mut planned.next {
            Disposition::Run(entry) => entry.clone(),
            Disposition::Reject(failure) => {
                let end = failure.taken().into();
                return Err(Executed { turn, ..planned.ended(end) });
            }
        };
        let Planned { ongoing: job, place, .. } = planned;
        let mut prepared = Prepared { job, entry, equipment: ExecutorInputs::default(), place, turn };
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    async fn complete(&self, prepared: &mut Prepared) -> Result<(), RunExit> {
        let Prepared { job, entry, equipment, place, .. } = prepared;
        self.hooks.before(job, entry, place).await?;
        let Ongoing { call, begin, .. } = &mut **job;
        let is_handed_out = matches!(begin, StartMode::AwaitResult | StartMode::Lost);
        let equipped = self.equipper.inject_inputs(call, equipment, entry, *begin == StartMode::Start, is_handed_out);
        if job.begin == StartMode::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        equipped.map_err(|failure| *failure)?;
        Ok(())
    }
}
