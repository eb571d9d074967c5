//! What happens beside calls: the lease of the node, requests of other nodes, and old use.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::Budgets;
use toolpost_store::store::StoreError;

impl Budgets {
    /// Returns `true` if the node certainly has its lease.
    pub(super) fn has_lease(&self) -> bool {
        self.millis_until(Instant::now()) < self.leased_until.load(Ordering::Acquire)
    }

    fn millis_until(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// Extends the lease after a heartbeat that began at `beat`. If the lease had ended, other nodes may have taken over what
    /// this node held, so it gives up all of it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. The node then has no lease.
    pub async fn renew(&self, beat: Instant, lease: Duration) -> Result<(), StoreError> {
        if self.has_any() && !self.has_lease() {
            self.stores.give_up_allotments(&self.node).await?;
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        self.leased_until.store(self.millis_until(beat + lease), Ordering::Release);
        self.renewed.notify_waiters();
        Ok(())
    }

    /// Returns what this node holds and does not need: of budgets that other nodes have asked for, and of idle ones.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn return_spare(&self) -> Result<(), StoreError> {
        for (_, budget) in self.all() {
            for allotment in budget.pool.abandoned() {
                self.stores.give_up_allotment(budget.id, allotment).await?;
                budget.pool.forget(allotment);
            }
        }
        let holding: Vec<_> = self.all().into_iter().filter(|(_, budget)| budget.pool.has_spare()).collect();
        if holding.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = holding.iter().map(|(_, budget)| budget.id).collect();
        let wanted: HashMap<Uuid, i64> = self.stores.wanted_budgets(&ids).await?.into_iter().collect();
        for (_, budget) in holding {
            if let Some(spare) = budget.pool.take_if_wanted(wanted.get(&budget.id).copied()) {
                self.give_back(budget.id, &budget.pool, spare).await?;
            }
        }
        Ok(())
    }

    /// Frees what nodes that are gone hold, and deletes use that no window contains.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn clean_up(&self) -> Result<(), StoreError> {
        for (_, budget) in self.all() {
            self.stores.reclaim_allotments(budget.id).await?;
            let before = budget.definition.window_start(self.clock.now());
            self.stores.forget_budget_use(budget.id, before).await?;
        }
        Ok(())
    }
}
