//! Reservations of calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::pool::Refusal;
use super::{Budget, Budgets};
use toolpost_core::domain::budget::{Amount, BudgetHold};
use toolpost_core::domain::{Call, Tenant, Time};
use toolpost_store::store::StoreError;
use toolpost_store::store::budgets::{Grant, GrantRequest};

/// Maximum time for which a refusal is repeated without asking the database again, in milliseconds.
const REPEAT_REFUSAL_MS: u64 = 100;
/// Maximum wait for what other nodes hold and do not need.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(1);
/// The interval in which the database is asked whether other nodes have returned something.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Maximum wait for a heartbeat of a node that may have lost its lease.
const WAIT_FOR_LEASE: Duration = Duration::from_secs(5);

/// An error returned by [`Budgets::reserve`].
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// A budget has no room for the call.
    #[error("the budget {budget} is used up")]
    UsedUp {
        /// The name of the budget.
        budget: String,
        /// When the call fits again, if only time is missing.
        refills_at: Option<Time>,
    },
    /// The node may have lost its lease, so that it holds nothing.
    #[error("the node has no lease")]
    NoLease,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The service ends.
    #[error("the service ends")]
    Closed(#[from] tokio::task::JoinError),
}

/// The holds of a call. Unless they are taken, they are released when the value is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    budgets: &'a Budgets,
    tenant: Tenant,
    holds: Vec<BudgetHold>,
}

impl Reservation<'_> {
    /// Returns the holds, which the caller must release.
    #[must_use]
    pub fn into_holds(mut self) -> Box<[BudgetHold]> {
        std::mem::take(&mut self.holds).into()
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        for hold in &self.holds {
            if let Some(pool) = self.budgets.pool(&self.tenant, hold.budget) {
                // The upkeep returns it to the budget if it is not needed here.
                pool.cancel(hold.allotment, hold.amount);
            }
        }
    }
}

impl Budgets {
    /// Reserves a call with this cost, in billionths, in all budgets that count it: in all of them or in none.
    ///
    /// # Errors
    /// Returns a [`ReserveError`] if a budget has no room, or if that cannot be found out.
    pub async fn reserve(self: &Arc<Self>, call: &Call, cost: i64) -> Result<Reservation<'_>, ReserveError> {
        let mut reservation = Reservation { budgets: self, tenant: call.tenant.clone(), holds: Vec::new() };
        let (budgets, amount) = (self.for_tenant(&call.tenant), Amount::of_call(cost));
        for budget in budgets.iter().filter(|budget| budget.counts(call)) {
            let allotment = match self.try_reserve(budget, amount) {
                Some(allotment) => allotment,
                None => self.reserve_more(budget, amount).await?,
            };
            let (step, used) = (budget.definition.step(), None);
            reservation.holds.push(BudgetHold { budget: budget.id, allotment, amount, step, used });
        }
        Ok(reservation)
    }

    /// Reserves of what this node holds.
    fn try_reserve(&self, budget: &Budget, call: Amount) -> Option<Uuid> {
        let epoch = self.epoch.load(Ordering::Acquire);
        self.has_lease().then(|| budget.pool.try_reserve(call, epoch)).flatten()
    }

    /// Asks the database for more, and reserves of it.
    async fn reserve_more(self: &Arc<Self>, budget: &Arc<Budget>, call: Amount) -> Result<uuid::Uuid, ReserveError> {
        let used_up = |refills_at| ReserveError::UsedUp { budget: budget.definition.name.clone(), refills_at };
        let _refill = budget.pool.refill.lock().await;
        loop {
            self.wait_for_lease().await?;
            if let Some(allotment) = self.try_reserve(budget, call) {
                return Ok(allotment);
            }
            if let Some(refusal) = budget.pool.refused(call, self.clock.now()) {
                return Err(used_up(refusal.refills_at));
            }
            // A task of its own, so that a grant is recorded here also if the call is cancelled meanwhile.
            let (this, of) = (self.clone(), budget.clone());
            if let Some(refusal) = tokio::spawn(async move { this.refill(&of, call).await }).await?? {
                budget.pool.refuse(refusal);
                return Err(used_up(refusal.refills_at));
            }
        }
    }

    /// Enlarges what this node holds. Returns a refusal if the budget has no room for the call.
    async fn refill(&self, budget: &Budget, call: Amount) -> Result<Option<Refusal>, ReserveError> {
        if !matches!(self.grant(budget, call).await?, Grant::Denied { .. }) {
            return Ok(None);
        }
        // Lost nodes, and then running ones, may hold what they do not need.
        self.stores.fold_stats().await?;
        self.stores.reclaim_allotments(budget.id).await?;
        let mut grant = self.grant(budget, call).await?;
        if matches!(grant, Grant::Denied { others_have_spare: true, .. }) {
            self.stores.want_budget(budget.id).await?;
            let until = Instant::now() + WAIT_FOR_OTHERS;
            while matches!(grant, Grant::Denied { others_have_spare: true, .. }) && Instant::now() < until {
                tokio::time::sleep(ASK_AGAIN).await;
                grant = self.grant(budget, call).await?;
            }
        }
        let missing = match grant {
            Grant::Denied { missing, .. } => missing,
            _ => return Ok(None),
        };
        self.refusal(budget, call, missing).await.map(Some)
    }

    async fn refusal(&self, budget: &Budget, call: Amount, missing: Amount) -> Result<Refusal, ReserveError> {
        let (definition, now) = (&budget.definition, self.clock.now());
        let freed = self.stores.budget_frees(budget.id, definition.window_start(now), missing).await?;
        // Another node may have recorded a use after `now`. The wait is rounded up to the next millisecond later, and no
        // wait is longer than the window.
        let latest = now.plus_millis(definition.window_ms.saturating_sub(1));
        let refills_at = freed.map(|at| at.plus_millis(definition.window_ms).min(latest));
        let until = now.plus_millis(REPEAT_REFUSAL_MS);
        Ok(Refusal { call, refills_at, until: refills_at.map_or(until, |at| at.min(until)) })
    }

    async fn grant(&self, budget: &Budget, call: Amount) -> Result<Grant, ReserveError> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let (allotment, further) = budget.pool.growing(epoch, || self.ids.next());
        let (definition, now) = (&budget.definition, self.clock.now());
        let request = GrantRequest {
            budget: budget.id,
            allotment,
            node: &self.node,
            limit: definition.limit(),
            since: definition.window_start(now),
            call,
            further,
        };
        let grant = self.stores.grant_budget(&request).await;
        if grant.is_err() {
            budget.pool.abandon(allotment, self.ids.next());
        }
        let grant = grant?;
        match grant {
            Grant::Granted { amount, wanted } => budget.pool.add(allotment, amount, (wanted, amount == call)),
            // Its calls are no longer counted. Other nodes learn of it at the same time as this one.
            Grant::Deleted => budget.pool.add(allotment, call, (0, true)),
            Grant::Denied { .. } => {}
        }
        Ok(grant)
    }

    /// Waits until the node certainly has its lease.
    async fn wait_for_lease(&self) -> Result<(), ReserveError> {
        let renewed = async {
            loop {
                let renewed = self.renewed.notified();
                if self.has_lease() {
                    return;
                }
                renewed.await;
            }
        };
        tokio::time::timeout(WAIT_FOR_LEASE, renewed).await.map_err(|_| ReserveError::NoLease)
    }
}
