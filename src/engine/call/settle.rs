//! The last step of a call: its end is stored, answered and published.

use std::sync::Arc;

use tokio::sync::Notify;

use super::hooks::CallHooks;
use super::instrument::note_end;
use super::last_result::LastResult;
use super::recorder::Recorded;
use super::state::{Executed, Ongoing, RunExit};
use crate::domain::Clock;
use crate::domain::limits::Bounds;
use crate::telemetry::trace::Span;

/// Settles calls.
#[derive(Debug)]
pub(super) struct Settler<'a> {
    pub last_result: LastResult<'a>,
    pub hooks: CallHooks<'a>,
    pub clock: &'a Clock,
    pub callbacks_kick: &'a Notify,
}

impl Settler<'_> {
    /// Settles a call, and returns whether its caller was still waiting for its end.
    pub async fn settle(&self, executed: Executed, span: &mut Span) -> Recorded {
        let Executed { mut job, entry, inputs: equipment, turn, instance_guard: call_end, end } = executed;
        let end = match (end, entry) {
            // Boxed: few calls come this way.
            (RunExit::Settle(outcome), Some(entry)) if job.may_have_result() => {
                Box::pin(self.last_result.find(&mut job, &entry, &equipment, outcome)).await
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
        // Whatever is posted from now on comes too late.
        drop(job.handle.outside.close());
        let now = self.clock.moment();
        let stored = match &end {
            RunExit::Done(outcome) | RunExit::Settle(outcome) => self.hooks.persist(&mut job, outcome, now).await,
            RunExit::LeaveQueued | RunExit::TakenOver => None,
        };
        // What is kept for the call is freed once its end is on disk.
        let Ongoing { mut call, mut recorder, registration, permits: holds, .. } = *job;
        match end {
            RunExit::Done(outcome) | RunExit::Settle(outcome) => match call.settle(*outcome, now) {
                Ok(()) => {
                    let has_callback = call.callback_url.is_some();
                    let settled = recorder.settle(Arc::new(call), stored).await;
                    if has_callback {
                        self.callbacks_kick.notify_one();
                    }
                    if let Some(settled) = settled {
                        note_end(span, &settled);
                        self.hooks.after(&job.access, &settled);
                    }
                }
                Err(error) => tracing::error!(id = %call.id, %error, "a call was settled twice"),
            },
            RunExit::LeaveQueued => recorder.leave(),
            RunExit::TakenOver => Box::pin(recorder.reply_with_stored(&call)).await,
        }
        drop((registration, holds, turn, call_end));
        recorder.end()
    }
}
