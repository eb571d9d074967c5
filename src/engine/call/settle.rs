//! Step 6, settle: truncates the output, runs the persist hooks, commits the end of the call, and answers the caller.

use std::sync::Arc;

use tokio::sync::Notify;

use super::hooks::CallHooks;
use super::instrument::record_end;
use super::last_result::LastResult;
use super::recorder::Recorded;
use super::state::{Executed, Ongoing, RunExit};
use crate::budgets::Budgets;
use crate::domain::limits::Bounds;
use crate::domain::{Clock, HookEvent, Outcome};
use crate::engine::live::LiveCalls;
use crate::engine::offer_writer::OfferWriter;
use crate::executor::RecordedEnd;
use crate::store::Stores;
use crate::telemetry::trace::Span;

/// The last step of a call.
pub(super) struct Settler<'a> {
    pub last_result: LastResult<'a>,
    pub stores: &'a Stores,
    pub node: &'a str,
    pub live: &'a LiveCalls,
    pub offers: &'a OfferWriter,
    pub hooks: CallHooks<'a>,
    pub budgets: &'a Budgets,
    pub clock: &'a Clock,
    pub callbacks_kick: &'a Notify,
}

impl Settler<'_> {
    /// Settles a call. Returns whether the caller still waited for it.
    pub async fn settle(&self, executed: Executed, span: &mut Span) -> Recorded {
        let Executed { mut job, entry, mut end } = executed;
        if job.is_taken_over(self.live) {
            end = RunExit::TakenOver;
        }
        let is_for_workers = entry.as_ref().is_some_and(|entry| entry.definition.worker().is_some());
        let had_worker = match &end {
            // Boxed because few calls wait for a worker.
            RunExit::Settle(_) if is_for_workers => {
                Box::pin(self.last_result.notice_claim(&mut job, self.clock.moment())).await
            }
            _ => false,
        };
        let end = match (end, entry) {
            // Boxed because few calls can have a posted result.
            (RunExit::Settle(outcome), Some(entry)) if had_worker || job.may_have_result(&entry, &outcome) => {
                Box::pin(self.last_result.find(&mut job, &entry, outcome, self.clock.moment())).await
            }
            (end, _) => end,
        };
        if job.handle.outside.is_taken() {
            job.call.set_posted_result(job.handle.outside.digest());
        }
        // A result that is posted from here on is rejected as late.
        drop(job.handle.outside.close());
        match end {
            RunExit::Settle(outcome) if is_for_workers => {
                job.record_start().await;
                // Before the commit, so that the next heartbeat of the worker says why it no longer has the call.
                self.delete_offer(&job).await;
                return self.commit(job, outcome, span).await;
            }
            RunExit::Done(outcome) | RunExit::Settle(outcome) => return self.commit(job, outcome, span).await,
            RunExit::LeaveQueued => {
                self.budgets.hand_over(&job.call.tenant, &job.call.holds);
                job.recorder.leave();
            }
            RunExit::TakenOver => {
                self.budgets.hand_over(&job.call.tenant, &job.call.holds);
                Box::pin(job.recorder.reply_with_stored(&job.call)).await;
            }
        }
        job.recorder.end()
    }

    /// Deletes the row by which workers fetch the call. What a failure leaves is deleted later.
    async fn delete_offer(&self, job: &Ongoing) {
        let call = job.call.id;
        let deleted = async {
            if job.is_resumed {
                // It may be the offer of a lost node.
                self.stores.take_over_offer(call, self.node).await?;
            }
            self.stores.delete_offer(call, self.node).await
        };
        if let Err(error) = deleted.await {
            tracing::debug!(%call, %error, "cannot delete the offer of an ended call");
        }
    }

    /// Commits the end of a call, and answers its caller.
    async fn commit(&self, mut job: Box<Ongoing>, mut outcome: Box<Outcome>, span: &mut Span) -> Recorded {
        let bounds = job.call.limits.map_or_else(Bounds::default, |limits| limits.output());
        outcome.truncate(&bounds, job.call.id);
        let now = self.clock.moment();
        let stored = match self.hooks.hooks.has(HookEvent::ToolResultPersist) {
            // Boxed because few calls have hooks.
            true => Box::pin(self.hooks.persist(&mut job, &outcome, now)).await,
            false => None,
        };
        let (poster, was_offered) = (job.handle.outside.recorded(), job.offer.is_some());
        // The other resources of the call are released after its end is committed.
        let Ongoing { mut call, mut recorder, .. } = *job;
        if let Err(error) = call.settle(*outcome, now) {
            tracing::error!(id = %call.id, %error, "a call was settled twice");
            return recorder.end();
        }
        let has_callback = call.callback_url.is_some();
        if !call.holds.is_empty() {
            self.budgets.settle(&mut call);
        }
        let (tenant, holds) = (call.tenant.clone(), call.holds.clone());
        let settled = recorder.settle(Arc::new(call), stored).await;
        match &settled {
            _ if holds.is_empty() => {}
            Some(_) => Box::pin(self.budgets.release(&tenant, &holds)).await,
            None => self.budgets.hand_over(&tenant, &holds),
        }
        if has_callback {
            self.callbacks_kick.notify_one();
        }
        if let Some(settled) = settled {
            if was_offered {
                // Only now: the offer of a call that another node has adopted says which attempt a worker has.
                self.offers.delete(settled.id);
            }
            let end = RecordedEnd { status: settled.status, digest: settled.result_digest };
            // The poster may have left.
            poster.map(|poster| poster.send_replace(Some(end)));
            record_end(span, &settled);
            self.hooks.after(&job.access, &settled);
        }
        recorder.end()
    }
}
