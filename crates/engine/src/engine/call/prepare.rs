//! Step 3, prepare: collects streamed arguments, runs the before-hooks, injects presets, secrets and context, and reserves
//! in budgets.

use super::approve::Approver;
use super::collect_arguments::ArgumentCollector;
use super::hooks::CallHooks;
use super::rules::BudgetReserver;
use super::rules::PolicyCheck;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::{Executed, Planned, Prepared, Requirement};
use crate::engine::at_work::AtWork;
use crate::inputs::InputInjector;
use crate::registry::Entry;
use toolpost_core::domain::{Failure, HookEvent};
use toolpost_core::fault::{self, Point};

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
    /// Collects the arguments of a call, if they are streamed.
    ///
    /// # Errors
    /// Returns the call with its end if they do not arrive.
    pub async fn collect(&self, mut planned: Planned) -> Result<Planned, Executed> {
        let Some(streamed) = planned.streamed.take() else { return Ok(planned) };
        // Boxed because few calls have streamed arguments.
        match Box::pin(self.collector.collect_arguments(&mut planned, *streamed)).await {
            Ok(guard) => {
                guard.into_iter().for_each(|guard| planned.run.keep_guard(guard));
                Ok(planned)
            }
            Err(end) => Err(planned.ended(end)),
        }
    }

    /// Prepares a new call for its executor.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub async fn prepare(&self, mut prepared: Prepared) -> Result<Prepared, Executed> {
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Injects the inputs of the executor of a resumed call, whose hooks, policies and budgets were applied before.
    /// `is_handed_out` means that only its result is awaited.
    ///
    /// # Errors
    /// Returns the call with its end if an input is missing.
    pub fn prepare_again(&self, mut prepared: Prepared, is_handed_out: bool) -> Result<Prepared, Executed> {
        match self.inject(&mut prepared, false, is_handed_out) {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    /// Runs the before-hooks, injects the inputs of the executor, and reserves the call in its budgets.
    async fn complete(&self, prepared: &mut Prepared) -> Result<(), RunExit> {
        let Prepared { run, entry, queued, .. } = &mut *prepared;
        // The hooks of a call that was asked for have run already.
        if run.call().approval.is_none() && self.hooks.hooks.has(HookEvent::BeforeToolCall) {
            // Boxed because few calls have hooks.
            Box::pin(self.hooks.before(run, entry, queued)).await?;
        }
        let is_requested = run.call().approval.is_some();
        let required = match !is_requested && self.policies.policies.has_any() {
            // Boxed because few services have policies.
            true => Box::pin(self.judge(run, entry)).await.map_err(|failure| RunExit::from(*failure))?,
            false => None,
        };
        if is_requested || required.is_some() || entry.definition.requires_approval() {
            // Boxed because few calls need approval.
            Box::pin(self.approver.approve(prepared, required)).await?;
        }
        self.inject(prepared, true, false)?;
        if self.budgets.budgets.has_any() {
            // Boxed because few services have budgets.
            Box::pin(self.budgets.reserve(&mut prepared.run, &prepared.entry)).await?;
        }
        Ok(())
    }

    fn inject(&self, prepared: &mut Prepared, is_first: bool, is_handed_out: bool) -> Result<(), RunExit> {
        let Prepared { run, entry, inputs, .. } = prepared;
        let injected = run.amend(|call| self.injector.inject_inputs(call, inputs, entry, is_first, is_handed_out));
        Ok(injected.map_err(|failure| *failure)?)
    }

    /// Evaluates the policies. For an adopted call, this is noted, because it may be what has cost its node the lease.
    async fn judge(&self, run: &mut CallRun, entry: &Entry) -> Result<Option<Requirement>, Box<Failure>> {
        let Some(losses) = run.losses() else { return self.policies.check(run, entry).await };
        let _permit = self.at_work.acquire(losses).await;
        self.at_work.begin(run.id(), losses).await;
        fault::pass(Point::AfterWorkNote);
        let verdict = self.policies.check(run, entry).await;
        self.at_work.end(run.id(), losses).await;
        verdict
    }
}
