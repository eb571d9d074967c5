//! The budgets of a call, the last part of step 3: a call reserves before it runs.

use std::sync::Arc;

use tokio::time::Instant;

use super::interrupt::ANNOUNCE_AFTER;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::wait::Waiter;
use crate::budgets::{Budgets, ReserveError};
use crate::registry::Entry;
use toolpost_core::domain::Failure;
use toolpost_core::domain::budget::nanos_of;

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
