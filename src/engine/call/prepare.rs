//! Step 3, prepare: collects streamed arguments, runs the before-hooks, and injects presets, secrets and context.

use std::sync::Arc;

use super::collect_arguments::ArgumentCollector;
use super::hooks::CallHooks;
use super::inject::InputInjector;
use super::state::{Executed, Ongoing, Planned, RunExit, StartMode};
use crate::dispatch::QueuedSlot;
use crate::domain::{Failure, HookEvent};
use crate::registry::Entry;

/// A call that is ready to run.
pub(super) struct Prepared {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    /// The place in the queue, if one was acquired in advance.
    pub place: Option<QueuedSlot>,
}

impl Prepared {
    /// Ends the call before it is admitted.
    pub fn ended(self, end: RunExit) -> Executed {
        Executed { job: self.job, entry: Some(self.entry), end }
    }
}

/// The third step of a call.
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
        if let Some(draft) = planned.ongoing.handle.draft.clone() {
            // Boxed because few calls have streamed arguments.
            match Box::pin(self.collector.collect_arguments(&mut planned, &draft)).await {
                Ok(turn) => planned.ongoing.turn = turn,
                Err(end) => return Err(planned.ended(end)),
            }
        }
        let Planned { ongoing: job, next, place, .. } = planned;
        let mut prepared = match next {
            Ok(entry) => Prepared { job, entry, place },
            Err(failure) => return Err(Executed { job, entry: None, end: (*failure).into() }),
        };
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Runs the before-hooks, and then injects the inputs of the executor.
    async fn complete(&self, prepared: &mut Prepared) -> Result<(), RunExit> {
        let Prepared { job, entry, place } = prepared;
        let is_first = job.begin == StartMode::Start;
        // The hooks of a resumed call have run already.
        if is_first && self.hooks.hooks.has(HookEvent::BeforeToolCall) {
            // Boxed because few calls have hooks.
            Box::pin(self.hooks.before(job, entry, place)).await?;
        }
        let is_handed_out = matches!(job.begin, StartMode::AwaitResult | StartMode::Lost);
        let Ongoing { call, inputs, .. } = &mut **job;
        let injected = self.injector.inject_inputs(call, inputs, entry, is_first, is_handed_out);
        if job.begin == StartMode::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        injected.map_err(|failure| *failure)?;
        Ok(())
    }
}
