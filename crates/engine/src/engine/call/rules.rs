//! The rules for a call, a part of step 3: policies see the arguments that would run, and budgets count the call before it runs.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::Requirement;
use super::wait::Waiter;
use crate::budgets::{Budgets, ReserveError};
use crate::interrupt::ANNOUNCE_AFTER;
use crate::policies::{Input, Policies, Verdict, decide};
use crate::registry::Entry;
use toolpost_core::domain::budget::nanos_of;
use toolpost_core::domain::call::POLICY;
use toolpost_core::domain::policy::PolicyEffect;
use toolpost_core::domain::{Clock, Failure, RequiredBy};

/// Evaluates the policies for calls.
#[derive(Clone, Copy)]
pub(super) struct PolicyCheck<'a> {
    pub policies: &'a Policies,
    pub clock: &'a Clock,
}

impl PolicyCheck<'_> {
    /// Evaluates the policies, and adds the name of the deciding policy to the metadata. Returns what requires an approval, if a
    /// policy asks for one.
    ///
    /// # Errors
    /// Returns `POLICY_DENIED` if a policy forbids the call or cannot be evaluated.
    pub async fn check(&self, run: &mut CallRun, entry: &Entry) -> Result<Option<Requirement>, Box<Failure>> {
        let policies = self.policies.for_tenant(&run.call().tenant);
        let arguments = run.call().effective_arguments.clone().unwrap_or_default();
        let tool = Some((&entry.definition, entry.made.source));
        let input = Input::new(run.call(), tool, &arguments, self.clock.now());
        let verdict = decide(policies, input, self.policies.bounds()).await;
        let Some(Verdict { policy, effect, reason, error }) = verdict else { return Ok(None) };
        run.amend(|call| call.extend_metadata([(POLICY.to_owned(), Value::String(policy.clone()))]));
        match effect {
            PolicyEffect::Allow => Ok(None),
            PolicyEffect::Deny => {
                Err(Failure::policy_denied(&entry.name, &policy, reason.as_deref(), error.as_deref()).into())
            }
            PolicyEffect::Approve => Ok(Some(Requirement { by: RequiredBy::Policy, policy: Some(policy), reason })),
        }
    }
}

/// Reserves calls in the budgets that count them.
#[derive(Clone, Copy)]
pub(super) struct BudgetReserver<'a> {
    pub budgets: &'a Arc<Budgets>,
    pub waiter: Waiter<'a>,
}

impl BudgetReserver<'_> {
    /// Reserves a call, unless it has reserved before it was resumed.
    ///
    /// # Errors
    /// Returns `BUDGET_EXCEEDED` if a budget has no room for the call, and other reasons why it must not run.
    pub async fn reserve(&self, run: &mut CallRun, entry: &Entry) -> Result<(), RunExit> {
        if !run.call().holds.is_empty() {
            return Ok(());
        }
        let (call, cost) = (run.call().clone(), nanos_of(entry.definition.cost.unwrap_or(0.0)));
        let reserved = self.budgets.reserve(&call, cost);
        let reserved = self.waiter.wait(run, Instant::now() + ANNOUNCE_AFTER, None, reserved).await?;
        match reserved {
            Ok(reservation) => {
                run.amend(|call| call.set_holds(reservation.into_holds()));
                Ok(())
            }
            Err(ReserveError::UsedUp { budget, refills_at }) => {
                Err(Failure::budget_exceeded(&budget, refills_at, self.waiter.clock.now()).into())
            }
            Err(error) => {
                tracing::debug!(%error, "cannot reserve a call in its budgets");
                Err(Failure::overloaded("The budgets of the call could not be read in time; the call was not run")
                    .into())
            }
        }
    }
}
