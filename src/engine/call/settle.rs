//! Step 6, settle: truncates the output, runs the persist hooks, commits the end of the call, and answers the caller.

use std::sync::Arc;

use tokio::sync::Notify;

use super::hooks::CallHooks;
use super::instrument::record_end;
use super::last_result::LastResult;
use super::recorder::Recorded;
use super::state::{Executed, Ongoing, RunExit};
use crate::domain::Clock;
use crate::domain::limits::Bounds;
use crate::telemetry::trace::Span;

/// The last step of a call.
#[derive(Debug)]
pub(super) struct Settler<'a> {
    pub last_result: LastResult<'a>,
    pub hooks: CallHooks<'a>,
    pub clock: &'a Clock,
    pub callbacks_kick: &'a Notify,
}

impl Settler<'_> {
    /// Settles a call. Returns whether the caller still waited for it.
    pub async fn settle(&self, executed: Executed, span: &mut Span) -> Recorded {
        let Executed { mut job, entry, inputs, turn, instance_guard, end } = executed;
        let end = match (end, entry) {
            // Boxed because few calls can have a posted result.
            (RunExit::Settle(outcome), Some(entry)) if job.may_have_result() => {
                Box::pin(self.last_result.find(&mut job, &entry, &inputs, outcome)).await
            }
            (end, _) => end,
        };
        let end = match end {
            RunExit::Done(mut outcome) | RunExit::Settle(mut outcome) => {
                let bounds = job.call.limits.map_or_else(Bounds::default, |limits| limits.output());
                outcome.truncate(&bounds, job.call.id);
                if job.handle.outside.is_taken() {
                    job.call.set_posted_result();
                }
                RunExit::Settle(outcome)
            }
            end => end,
        };
        // A result that is posted from here on is rejected as late.
        drop(job.handle.outside.close());
        let now = self.clock.moment();
        let stored = match &end {
            RunExit::Done(outcome) | RunExit::Settle(outcome) => self.hooks.persist(&mut job, outcome, now).await,
            RunExit::LeaveQueued | RunExit::TakenOver => None,
        };
        // The resources of the call are released after its end is committed.
        let Ongoing { mut call, mut recorder, registration, permits, .. } = *job;
        match end {
            RunExit::Done(outcome) | RunExit::Settle(outcome) => match call.settle(*outcome, now) {
                Ok(()) => {
                    let has_callback = call.callback_url.is_some();
                    let settled = recorder.settle(Arc::new(call), stored).await;
                    if has_callback {
                        self.callbacks_kick.notify_one();
                    }
                    if let Some(settled) = settled {
                        record_end(span, &settled);
                        self.hooks.after(&job.access, &settled);
                    }
                }
                Err(error) => tracing::error!(id = %call.id, %error, "a call was settled twice"),
            },
            RunExit::LeaveQueued => recorder.leave(),
            RunExit::TakenOver => Box::pin(recorder.reply_with_stored(&call)).await,
        }
        drop((registration, permits, turn, instance_guard));
        recorder.end()
    }
}
