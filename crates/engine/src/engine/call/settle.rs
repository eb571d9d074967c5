//! Step 6, settle: truncates the output, runs the persist hooks, commits the end of the call, and answers the caller.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::execute::check_output;
use super::hooks::CallHooks;
use super::log::Recorded;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::Executed;
use crate::budgets::Budgets;
use crate::engine::last_result::LastResult;
use crate::engine::live::accepts_posted_result;
use crate::inputs::ExecutorInputs;
use crate::registry::Entry;
use crate::workqueue::OfferWriter;
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Call, Clock, HookEvent, Outcome, Phase, Status, convert};
use toolpost_store::store::Stores;
use toolpost_telemetry::trace::Span;
use toolpost_tool::executor::{PostedResult, RecordedEnd, images};

/// The end that a call has unless a result was posted.
struct MayEnd<'a> {
    entry: &'a Entry,
    inputs: &'a ExecutorInputs,
    outcome: Box<Outcome>,
}

/// The last step of a call.
pub(super) struct Settler<'a> {
    pub last_result: LastResult<'a>,
    /// Maximum time for which a caller waits for the database.
    pub timeout: Duration,
    pub stores: &'a Stores,
    pub node: &'a str,
    pub offers: &'a OfferWriter,
    pub hooks: CallHooks<'a>,
    pub budgets: &'a Budgets,
    pub clock: &'a Clock,
    pub callbacks_due: &'a Notify,
}

impl Settler<'_> {
    /// Settles a call. Returns whether the caller still waited for it.
    pub async fn settle(&self, executed: Executed, span: &mut Span) -> Recorded {
        let Executed { mut run, entry, inputs, mut end } = executed;
        if run.signals().is_taken_over() {
            end = RunExit::TakenOver;
        }
        let is_for_workers = entry.as_ref().is_some_and(|entry| entry.definition.worker().is_some());
        let had_worker = match &end {
            // Boxed because few calls wait for a worker.
            RunExit::Settle(_) if is_for_workers => Box::pin(self.notice_claim(&mut run)).await,
            _ => false,
        };
        let end = match (end, entry) {
            // Boxed because few calls can have a posted result.
            (RunExit::Settle(outcome), Some(entry)) if had_worker || run.may_have_result(&entry, &outcome) => {
                let may_end = MayEnd { entry: &entry, inputs: &inputs, outcome };
                Box::pin(self.posted_end(&mut run, may_end)).await
            }
            (end, _) => end,
        };
        if run.posted().is_taken() {
            let digest = run.posted().digest();
            run.amend(|call| call.set_posted_result(digest));
        }
        // A result that is posted from here on is rejected as late.
        drop(run.posted().close());
        match end {
            RunExit::Settle(outcome) if is_for_workers => {
                run.record_start().await;
                // Before the commit, so that the next heartbeat of the worker says why it no longer has the call.
                self.delete_offer(&run).await;
                self.commit(run, outcome, span).await
            }
            RunExit::Done(outcome) | RunExit::Settle(outcome) => self.commit(run, outcome, span).await,
            RunExit::LeaveQueued => {
                self.budgets.hand_over(&run.call().tenant, &run.call().holds);
                run.leave()
            }
            RunExit::TakenOver => {
                self.budgets.hand_over(&run.call().tenant, &run.call().holds);
                Box::pin(run.reply_with_stored()).await
            }
        }
    }

    /// Returns the end of a call: a result that was posted at the last moment takes precedence.
    async fn posted_end(&self, run: &mut CallRun, end: MayEnd<'_>) -> RunExit {
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
                let mut lookup = pin!(self.last_result.posted(run.id(), end));
                match tokio::time::timeout(self.timeout, &mut lookup).await {
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
        if run.call().status == Status::Wait && !run.notice_start(self.clock.moment(), true) {
            return RunExit::Settle(outcome);
        }
        run.amend(|call| call.set_posted_result(posted.digest));
        let outcome = inputs.without_secrets(convert::outcome_of(&entry.name, posted.output));
        RunExit::Settle(images::fitted(check_output(entry, Box::new(outcome))).boxed().await)
    }

    /// Records the start of a call that ends before this node has offered it, if a lost node has offered it and a worker
    /// has had it. Returns `true` in this case.
    async fn notice_claim(&self, run: &mut CallRun) -> bool {
        if run.call().status != Status::Wait || !run.is_recorded() {
            return false;
        }
        self.last_result.had_worker(run.id()).await && run.notice_start(self.clock.moment(), false)
    }

    /// Deletes the row by which workers fetch the call. What a failure leaves is deleted later.
    async fn delete_offer(&self, run: &CallRun) {
        let call = run.id();
        let deleted = async {
            if run.losses().is_some() {
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
    async fn commit(&self, mut run: Box<CallRun>, mut outcome: Box<Outcome>, span: &mut Span) -> Recorded {
        let bounds = run.call().limits.map_or_else(Bounds::default, |limits| limits.output());
        outcome.truncate(&bounds, run.id());
        let now = self.clock.moment();
        let image = match self.hooks.hooks.has(HookEvent::ToolResultPersist) {
            // Boxed because few calls have hooks.
            true => Box::pin(self.hooks.persist(&mut run, &outcome, now)).await,
            false => None,
        };
        let (poster, was_offered) = (run.posted().recorded(), run.was_offered());
        let has_callback = run.call().callback_url.is_some();
        let has_hooks = self.hooks.hooks.has(HookEvent::AfterToolCall);
        let access = has_hooks.then(|| run.origin().access.clone());
        let (tenant, mut holds) = (run.call().tenant.clone(), run.call().holds.clone());
        let complete = |call: &mut Call| {
            if !call.holds.is_empty() {
                self.budgets.settle(call);
                holds.clone_from(&call.holds);
            }
        };
        let (settled, recorded) = run.settle(*outcome, now, image, complete).await;
        match &settled {
            _ if holds.is_empty() => {}
            Some(_) => Box::pin(self.budgets.release(&tenant, &holds)).await,
            None => self.budgets.hand_over(&tenant, &holds),
        }
        if has_callback {
            self.callbacks_due.notify_one();
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
            if let Some(access) = access {
                self.hooks.after(&access, &settled);
            }
        }
        recorded
    }
}

/// Records the end of a call after its commit.
fn record_end(span: &mut Span, call: &Arc<Call>) {
    let failure = call.outcome.as_ref().and_then(|outcome| outcome.error.as_ref());
    let code = failure.map_or("", |failure| failure.code.as_str());
    tracing::debug!(
        status = call.status.as_str(),
        code,
        attempts = call.runs(),
        duration_ms = call.duration_ms().unwrap_or_default(),
        "the call has ended"
    );
    if span.is_on() {
        span.set("toolpost.call.status", call.status.as_str());
        span.set_number("toolpost.call.attempts", call.runs().into());
        if failure.is_some() {
            span.fail(code);
        }
    }
}
