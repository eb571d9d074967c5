//! Budgets, the parts of them that nodes hold, and their use.
//!
//! A node takes an *allotment* of a budget and reserves calls from it in memory. The sum of use within the window and of all
//! allotments never exceeds the limit: a grant reads both in one statement, under the lock of the budget's row, and folding
//! the notes of commits moves an amount from an allotment to the use in one transaction. Definitions count in the version of
//! the tools.

use uuid::Uuid;

use super::query::Transaction;
use super::{Store, StoreError, Stores, quota};
use toolpost_core::domain::budget::{Amount, BudgetDefinition, Limit};
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Tenant, Time};

mod reclaim;

/// A stored budget.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBudget {
    /// The id.
    pub id: Uuid,
    /// The definition.
    pub definition: BudgetDefinition,
    /// The time of the creation.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

/// A request for a larger allotment.
#[derive(Debug, Clone, Copy)]
pub struct GrantRequest<'a> {
    /// The budget.
    pub budget: Uuid,
    /// The allotment that grows, or is created.
    pub allotment: Uuid,
    /// The node that holds it.
    pub node: &'a str,
    /// The limit of the budget.
    pub limit: Limit,
    /// The begin of the window.
    pub since: Time,
    /// What the next call needs.
    pub call: Amount,
    /// The number of further calls for which the node wants to be prepared.
    pub further: i64,
}

/// The result of a [`GrantRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The allotment has grown by this amount. `wanted` is the number of the last request of other nodes.
    Granted {
        /// The amount.
        amount: Amount,
        /// The number of the last request of other nodes.
        wanted: i64,
    },
    /// The budget has no room for the call.
    Denied {
        /// What is missing.
        missing: Amount,
        /// Whether other nodes hold more than their calls need.
        others_have_spare: bool,
    },
    /// The budget was deleted.
    Deleted,
}

/// The use of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetUsage {
    /// What ended calls have used within the window.
    pub used: Amount,
    /// What the nodes hold.
    pub held: Amount,
    /// The time of the oldest use within the window.
    pub oldest: Option<Time>,
}

/// Use within the window after $2, and the allotments. One statement, because folding moves amounts from one to the other.
const STATE: &str = "SELECT \
    CAST(COALESCE((SELECT SUM(calls) FROM budget_use WHERE budget = $1 AND at > $2), 0) AS BIGINT), \
    CAST(COALESCE((SELECT SUM(cost) FROM budget_use WHERE budget = $1 AND at > $2), 0) AS BIGINT), \
    CAST(COALESCE((SELECT SUM(calls) FROM budget_allotments WHERE budget = $1), 0) AS BIGINT), \
    CAST(COALESCE((SELECT SUM(cost) FROM budget_allotments WHERE budget = $1), 0) AS BIGINT)";

impl Stores {
    /// Returns all budgets with their tenants, by name, and the version of the tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn budgets(&self) -> Result<(Vec<(Tenant, StoredBudget)>, i64), StoreError> {
        const SQL: &str = "SELECT tenant, id, definition, created_at, updated_at FROM budgets ORDER BY tenant, name";
        // The version is read first: if a budget changes in between, it is read again instead of missed.
        let version = self.tools_clock().await?;
        let rows: Vec<(Tenant, Uuid, String, Time, Time)> = self.db.read(SQL).all().await?;
        let budget = |(tenant, id, text, created_at, updated_at): (Tenant, Uuid, String, Time, Time)| {
            let definition = serde_json::from_str(&text)
                .map_err(|error| StoreError::Corrupt(format!("a budget of {}: {error}", tenant.as_str())))?;
            Ok((tenant, StoredBudget { id, definition, created_at, updated_at }))
        };
        Ok((rows.into_iter().map(budget).collect::<Result<_, StoreError>>()?, version))
    }

    /// Enlarges the allotment of a node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn grant_budget(&self, request: &GrantRequest<'_>) -> Result<Grant, StoreError> {
        const LOCK: &str = "UPDATE budgets SET grants = grants + 1 WHERE id = $1 RETURNING wanted";
        const ADD: &str = "INSERT INTO budget_allotments AS a (budget, id, node, calls, cost, is_lean) \
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (budget, id) DO UPDATE SET \
            calls = a.calls + excluded.calls, cost = a.cost + excluded.cost, is_lean = excluded.is_lean";
        const SPARE: &str = "SELECT id FROM budget_allotments WHERE budget = $1 AND id <> $2 AND is_lean = 0 \
            AND (calls > 0 OR cost > 0) LIMIT 1";
        let GrantRequest { budget, allotment, node, limit, since, call, further } = *request;
        let mut answer = Grant::Deleted;
        let granted = self.db.transaction(async |transaction| {
            let Some((wanted,)) = transaction.query(LOCK).bind(budget).optional::<(i64,)>().await? else {
                return Ok(None);
            };
            let (used_calls, used_cost, held_calls, held_cost): (i64, i64, i64, i64) =
                transaction.query(STATE).bind(budget).bind(since).one().await?;
            let taken = Amount { calls: used_calls, cost: used_cost } + Amount { calls: held_calls, cost: held_cost };
            let left = limit.left(taken);
            if !limit.fits(call, left) {
                let spare: Option<(Uuid,)> = transaction.query(SPARE).bind(budget).bind(allotment).optional().await?;
                let missing = Amount { calls: call.calls - left.calls, cost: call.cost - left.cost };
                answer = Grant::Denied { missing, others_have_spare: spare.is_some() };
                return Ok(None);
            }
            let further = further_calls(limit, call, left - call, further);
            let amount = call + call.times(further);
            let query = transaction.query(ADD).bind(budget).bind(allotment).bind(node);
            let query = query.bind(amount.calls).bind(amount.cost).bind(i16::from(further == 0));
            query.execute().await?;
            Ok(Some(Grant::Granted { amount, wanted }))
        });
        Ok(granted.await?.unwrap_or(answer))
    }

    /// Returns an amount of an allotment that its node does not need.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn return_to_budget(&self, budget: Uuid, allotment: Uuid, amount: Amount) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE budget_allotments SET calls = calls - $3, cost = cost - $4, is_lean = 1 \
            WHERE budget = $1 AND id = $2";
        let query = self.db.write(SQL).bind(budget).bind(allotment);
        query.bind(amount.calls).bind(amount.cost).execute().await.map(drop)
    }

    /// Asks the other nodes to return what they do not need of a budget.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn want_budget(&self, budget: Uuid) -> Result<(), StoreError> {
        self.db.write("UPDATE budgets SET wanted = wanted + 1 WHERE id = $1").bind(budget).execute().await?;
        self.signals.notify_budgets();
        Ok(())
    }

    /// Returns the number of the last request of other nodes for each of these budgets.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn wanted_budgets(&self, budgets: &[Uuid]) -> Result<Vec<(Uuid, i64)>, StoreError> {
        self.db.read("SELECT id, wanted FROM budgets WHERE id IN ").push_list(budgets).uncached().all().await
    }

    /// Returns the use of a budget within the window.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn budget_usage(&self, budget: Uuid, since: Time) -> Result<BudgetUsage, StoreError> {
        let sql = format!("{STATE}, (SELECT MIN(at) FROM budget_use WHERE budget = $1 AND at > $2)");
        let query = self.db.read(sql).bind(budget).bind(since);
        let (calls, cost, held_calls, held_cost, oldest): (i64, i64, i64, i64, Option<Time>) = query.one().await?;
        let (used, held) = (Amount { calls, cost }, Amount { calls: held_calls, cost: held_cost });
        Ok(BudgetUsage { used, held, oldest })
    }

    /// Returns the time of the use whose end leaves room for `missing`, or `None` if all use together is less.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn budget_frees(&self, budget: Uuid, since: Time, missing: Amount) -> Result<Option<Time>, StoreError> {
        const SQL: &str = "SELECT at, calls, cost FROM budget_use WHERE budget = $1 AND at > $2 ORDER BY at";
        let rows: Vec<(Time, i64, i64)> = self.db.read(SQL).bind(budget).bind(since).all().await?;
        let mut freed = Amount::default();
        let enough = rows.into_iter().find(|(_, calls, cost)| {
            freed += Amount { calls: *calls, cost: *cost };
            freed.calls >= missing.calls && freed.cost >= missing.cost
        });
        Ok(enough.map(|(at, ..)| at))
    }

    /// Deletes the use that no window contains, and what deleted budgets have left.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_budget_use(&self, budget: Uuid, before: Time) -> Result<(), StoreError> {
        const OLD: &str = "DELETE FROM budget_use WHERE budget = $1 AND at <= $2";
        const DELETED: &str = "DELETE FROM budget_use WHERE budget NOT IN (SELECT id FROM budgets)";
        self.db.write(OLD).bind(budget).bind(before).execute().await?;
        self.db.write(DELETED).execute().await.map(drop)
    }
}

/// Returns for how many further calls a node may be prepared: at most an eighth of what is left, so that other nodes find
/// the rest.
fn further_calls(limit: Limit, call: Amount, left: Amount, wanted: i64) -> i64 {
    const SHARE: i64 = 8;
    let calls = limit.calls.map_or(i64::MAX, |_| left.calls / SHARE);
    let cost = limit.cost.map_or(i64::MAX, |_| (left.cost / SHARE) / call.cost.max(1));
    wanted.min(calls).min(cost).max(0)
}

/// Adds to the use of a budget.
pub(super) async fn add_use(
    transaction: &mut Transaction<'_>,
    (budget, at): (Uuid, Time),
    used: Amount,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO budget_use AS u (budget, at, calls, cost) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (budget, at) DO UPDATE SET calls = u.calls + excluded.calls, cost = u.cost + excluded.cost";
    let query = transaction.query(SQL).bind(budget).bind(at);
    query.bind(used.calls).bind(used.cost).execute().await.map(drop)
}

/// Takes what ended calls have used out of an allotment.
pub(super) async fn reduce_allotment(
    transaction: &mut Transaction<'_>,
    (budget, allotment): (Uuid, Uuid),
    amount: Amount,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE budget_allotments SET calls = calls - $3, cost = cost - $4 WHERE budget = $1 AND id = $2";
    let query = transaction.query(SQL).bind(budget).bind(allotment);
    query.bind(amount.calls).bind(amount.cost).execute().await.map(drop)
}

impl Store {
    /// Creates a budget with this id, or replaces its definition if `replaces`. Returns `false` if it exists and must not be
    /// replaced.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_budget(
        &self,
        id: Uuid,
        budget: &BudgetDefinition,
        now: Time,
        replaces: bool,
    ) -> Result<bool, StoreError> {
        const INSERT: &str = "INSERT INTO budgets (tenant, name, id, definition, created_at, updated_at) \
            VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (tenant, name) DO ";
        let sql = match replaces {
            true => format!("{INSERT}UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at"),
            false => format!("{INSERT}NOTHING"),
        };
        let text = serde_json::to_string(budget).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let put = self.change_tools(async |transaction| {
            let query = transaction.query(format!("{sql} RETURNING name")).bind(&self.tenant).bind(&budget.name);
            let stored: Option<(String,)> = query.bind(id).bind(&text).bind(now).optional().await?;
            self.quotas.check(transaction.query(quota::BUDGETS), &self.tenant, QuotaResource::Budget).await?;
            Ok(stored.is_some())
        });
        put.await
    }

    /// Deletes a budget with its use. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_budget(&self, name: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM budgets WHERE tenant = $1 AND name = $2 RETURNING id";
        self.change_tools(async |transaction| {
            let deleted: Option<(Uuid,)> = transaction.query(SQL).bind(&self.tenant).bind(name).optional().await?;
            let Some((id,)) = deleted else { return Ok(false) };
            for table in ["budget_allotments", "budget_use"] {
                let query = transaction.query(format!("DELETE FROM {table} WHERE budget = $1"));
                query.bind(id).execute().await?;
            }
            Ok(true)
        })
        .await
    }
}
