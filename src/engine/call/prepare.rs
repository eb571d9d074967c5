//! Step 3, prepare: collects streamed arguments, runs the before-hooks, and injects presets, secrets and context.

use std::sync::Arc;

use super::collect_arguments::ArgumentCollector;
use super::hooks::CallHooks;
use super::inject::{ExecutorInputs, InputInjector};
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
    /// The inputs that only the executor receives.
    pub inputs: ExecutorInputs,
    /// The place in the queue, if one was acquired in advance.
    pub place: Option<QueuedSlot>,
    /// The guard of the call's turn among the calls of one stream.
    pub turn: Option<OrderGuard>,
}

impl Prepared {
    /// Ends the call before it is admitted.
    pub fn ended(self, end: RunExit) -> Executed {
        let Self { job, entry, inputs, turn, .. } = self;
        Executed { job, entry: Some(entry), inputs, turn, instance_guard: None, end }
    }
}

/// The third step of a call.
#[derive(Debug)]
pub(super) struct Preparer<'a> {
    pub collector: ArgumentCollector<'a>,
    pub hooks: CallHooks<'a>,
    pub injector: InputInjector<'a>,
}

impl Preparer<'_> {
    /// Prepares a call for its executor.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub async fn prepare(&self, mut planned: Planned) -> Result<Prepared, Executed> {
        let mut turn = None;
        if let Some(draft) = planned.ongoing.handle.draft.clone() {
            // Boxed because few calls have streamed arguments.
            match Box::pin(self.collector.collect_arguments(&mut planned, &draft)).await {
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
        let mut prepared = Prepared { job, entry, inputs: ExecutorInputs::default(), place, turn };
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Runs the before-hooks, and then injects the inputs of the executor.
    async fn complete(&self, prepared: &mut Prepared) -> Result<(), RunExit> {
        let Prepared { job, entry, inputs, place, .. } = prepared;
        self.hooks.before(job, entry, place).await?;
        let Ongoing { call, begin, .. } = &mut **job;
        let is_handed_out = matches!(begin, StartMode::AwaitResult | StartMode::Lost);
        let injected = self.injector.inject_inputs(call, inputs, entry, *begin == StartMode::Start, is_handed_out);
        if job.begin == StartMode::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        injected.map_err(|failure| *failure)?;
        Ok(())
    }
}
