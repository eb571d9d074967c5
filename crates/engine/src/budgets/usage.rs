//! The use of budgets, as it is shown.

use super::{Budget, Budgets};
use toolpost_core::domain::Time;
use toolpost_core::domain::budget::Amount;
use toolpost_store::store::StoreError;

/// The use of a budget within its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// What ended calls have used.
    pub used: Amount,
    /// What running calls have reserved, and what other nodes hold for their next calls.
    pub reserved: Amount,
    /// When the oldest use leaves the window; `None` without use.
    pub resets_at: Option<Time>,
}

impl Budgets {
    /// Returns the use of a budget, with all calls that have ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn usage(&self, budget: &Budget) -> Result<Usage, StoreError> {
        self.stores.fold_stats().await?;
        self.stores.reclaim_allotments(budget.id).await?;
        let definition = &budget.definition;
        let usage = self.stores.budget_usage(budget.id, definition.window_start(self.clock.now())).await?;
        let reserved = usage.held - budget.pool.spare();
        Ok(Usage {
            used: usage.used,
            // A call may have reserved between the two readings.
            reserved: Amount { calls: reserved.calls.max(0), cost: reserved.cost.max(0) },
            resets_at: usage.oldest.map(|at| at.plus_millis(definition.window_ms)),
        })
    }
}
