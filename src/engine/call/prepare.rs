//! Step 3, prepare: collects streamed arguments, runs the before-hooks, injects presets, secrets and context, and reserves
//! in budgets.

use super::approve::Approver;
use super::budget::BudgetReserver;
use super::collect_arguments::ArgumentCollector;
use super::hooks::CallHooks;
use super::inject::InputInjector;
use super::policies::PolicyCheck;
use super::state::{Executed, Ongoing, Planned, Prepared, Requirement, RunExit, StartMode};
use crate::domain::{Failure, HookEvent};
use crate::engine::at_work::AtWork;
use crate::fault::{self, Point};
use crate::registry::Entry;

/// The third step of a call.
pub(super) struct Preparer<'a> {
    pub at_work: &'a AtWork,
    pub collector: ArgumentCollector<'a>,
    pub hooks: CallHooks<'a>,
    pub policies: PolicyCheck<'a>,
    pub approver: Approver<'a>,
    pub injector: InputInjector<'a>,
    pub budgets: BudgetReserver<'a>,
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
        let Planned { ongoing: job, next, interrupted, place, .. } = planned;
        let mut prepared = match next {
            Ok(entry) => Prepared { job, entry, place },
            Err(failure) => return Err(Executed { job, entry: interrupted, end: (*failure).into() }),
        };
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Runs the before-hooks, injects the inputs of the executor, and reserves the call in its budgets.
    async fn complete(&self, prepared: &mut Prepared) -> Result<(), RunExit> {
        let Prepared { job, entry, place } = &mut *prepared;
        let is_first = job.begin == StartMode::Start;
        // The hooks of a resumed call have run already.
        if is_first && job.call.approval.is_none() && self.hooks.hooks.has(HookEvent::BeforeToolCall) {
            // Boxed because few calls have hooks.
            Box::pin(self.hooks.before(job, entry, place)).await?;
        }
        let is_asked = job.call.approval.is_some();
        let required = match is_first && !is_asked && self.policies.policies.has_any() {
            // Boxed because few services have policies.
            true => Box::pin(self.judge(job, entry)).await.map_err(|failure| RunExit::from(*failure))?,
            false => None,
        };
        if is_first && (is_asked || required.is_some() || entry.definition.requires_approval()) {
            // Boxed because few calls need approval.
            Box::pin(self.approver.approve(prepared, required)).await?;
        }
        let Prepared { job, entry, .. } = prepared;
        let is_handed_out = matches!(job.begin, StartMode::AwaitResult | StartMode::Lost);
        let Ongoing { call, inputs, .. } = &mut **job;
        let injected = self.injector.inject_inputs(call, inputs, entry, is_first, is_handed_out);
        if job.begin == StartMode::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        injected.map_err(|failure| *failure)?;
        if is_first && self.budgets.budgets.has_any() {
            // Boxed because few services have budgets.
            Box::pin(self.budgets.reserve(job, entry)).await?;
        }
        Ok(())
    }

    /// Evaluates the policies. For an adopted call, this is noted, because it may be what has cost its node the lease.
    async fn judge(&self, job: &mut Ongoing, entry: &Entry) -> Result<Option<Requirement>, Box<Failure>> {
        let Some(losses) = job.losses else { return self.policies.check(job, entry).await };
        let _turn = self.at_work.turn(losses).await;
        self.at_work.begin(job.call.id, losses).await;
        fault::pass(Point::AfterWorkNote);
        let verdict = self.policies.check(job, entry).await;
        self.at_work.end(job.call.id, losses).await;
        verdict
    }
}
