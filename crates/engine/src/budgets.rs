//! Budgets: limits on calls and cost within a rolling window, exact over all nodes.
//!
//! A call reserves of what its node holds, without a query. The database grants more to the node when that is used up, and
//! the commit that ends the call settles what it has used (see [`toolpost_store::store::budgets`]). While no budget exists, a call pays
//! only for one atomic load.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use globset::{Glob, GlobSet, GlobSetBuilder};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use toolpost_core::domain::budget::{Amount, BudgetDefinition, BudgetHold, BudgetUse, reported_cost};
use toolpost_core::domain::{Call, Clock, IdGenerator, Tenant, Time, glob};
use toolpost_store::store::budgets::StoredBudget;
use toolpost_store::store::{StoreError, Stores};

mod pool;
mod reserve;
mod upkeep;
mod usage;

pub use reserve::ReserveError;
pub use usage::Usage;

use pool::Pool;

/// Maximum number of entries of one list in `match`.
const MAX_ENTRIES: usize = 256;

/// A compiled budget.
#[derive(Debug)]
pub struct Budget {
    /// The id of its use and its allotments.
    pub id: Uuid,
    /// The definition.
    pub definition: BudgetDefinition,
    /// The time of the creation.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
    tools: Option<GlobSet>,
    sessions: Option<GlobSet>,
    keys: HashSet<String>,
    pool: Arc<Pool>,
}

/// Budgets of a tenant by name.
pub type OrderedBudgets = Arc<Vec<Arc<Budget>>>;

/// All budgets, and what this node holds of them.
#[derive(Debug)]
pub struct Budgets {
    node: Arc<str>,
    stores: Stores,
    clock: Clock,
    ids: IdGenerator,
    table: ArcSwap<HashMap<Tenant, OrderedBudgets>>,
    has_any: AtomicBool,
    /// The version of the stored budgets in the table.
    version: Mutex<i64>,
    start: Instant,
    /// Until when the node certainly has its lease, in milliseconds after `start`.
    leased_until: AtomicU64,
    /// The number of lost leases. Allotments of earlier epochs belong to other nodes.
    epoch: AtomicU64,
    renewed: Notify,
}

/// An error in the `match` of a budget, with the pointer to it.
pub type MatchError = (String, String);

impl Budget {
    fn compile(stored: StoredBudget, pool: Arc<Pool>) -> Result<Self, MatchError> {
        let StoredBudget { id, definition, created_at, updated_at } = stored;
        let (tools, sessions) = compile_globs(&definition)?;
        let keys = definition.matches.keys.iter().cloned().collect();
        Ok(Self { id, definition, created_at, updated_at, tools, sessions, keys, pool })
    }

    /// Returns `true` if the budget counts the call.
    fn counts(&self, call: &Call) -> bool {
        let has_key = || {
            let Some(caller) = &call.caller else { return false };
            self.keys.contains(&*caller.subject) || caller.key.is_some_and(|key| self.keys.contains(&key.to_string()))
        };
        self.tools.as_ref().is_none_or(|globs| globs.is_match(&*call.name))
            && self.sessions.as_ref().is_none_or(|globs| call.session.as_deref().is_some_and(|id| globs.is_match(id)))
            && (self.keys.is_empty() || has_key())
    }
}

/// Compiles the globs of tools and sessions.
///
/// # Errors
/// Returns the pointer and the reason of the first invalid entry.
pub fn compile_globs(definition: &BudgetDefinition) -> Result<(Option<GlobSet>, Option<GlobSet>), MatchError> {
    let matches = &definition.matches;
    for (list, entries) in [("tools", &matches.tools), ("sessions", &matches.sessions), ("keys", &matches.keys)] {
        if entries.len() > MAX_ENTRIES {
            return Err((format!("/match/{list}"), format!("must have at most {MAX_ENTRIES} entries")));
        }
    }
    let session = |text: &str| match text.chars().count() {
        // A pattern for any session id, so that only the two wildcards are special.
        1..=512 if text.contains(['\0', '[', ']', '{', '}', '\\']) => {
            Err("must not contain brackets, braces, `\\` and U+0000: `*` is any text, `?` any character".to_owned())
        }
        1..=512 => Glob::new(text).map_err(|error| format!("is not a valid glob: {}", error.kind())),
        _ => Err("a glob must have 1 to 512 characters".to_owned()),
    };
    Ok((globs("tools", &matches.tools, glob)?, globs("sessions", &matches.sessions, session)?))
}

fn globs(
    list: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<Glob, String>,
) -> Result<Option<GlobSet>, MatchError> {
    if texts.is_empty() {
        return Ok(None);
    }
    let mut builder = GlobSetBuilder::new();
    for (index, text) in texts.iter().enumerate() {
        builder.add(parse(text).map_err(|reason| (format!("/match/{list}/{index}"), reason))?);
    }
    let built = builder.build().map_err(|error| (format!("/match/{list}"), error.kind().to_string()))?;
    Ok(Some(built))
}

impl Budgets {
    /// Creates the budgets of a node. [`Budgets::reload`] adds the stored ones.
    #[must_use]
    pub fn new(node: Arc<str>, stores: Stores, clock: Clock, ids: IdGenerator) -> Self {
        Self {
            node,
            stores,
            clock,
            ids,
            table: ArcSwap::default(),
            has_any: AtomicBool::new(false),
            version: Mutex::new(-1),
            start: Instant::now(),
            leased_until: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            renewed: Notify::new(),
        }
    }

    /// Returns `true` if any budget of any tenant exists.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// Returns the budgets of a tenant by name.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> OrderedBudgets {
        self.table.load().get(tenant).cloned().unwrap_or_default()
    }

    /// Returns all budgets with their tenants.
    #[must_use]
    pub fn all(&self) -> Vec<(Tenant, Arc<Budget>)> {
        let table = self.table.load();
        let of = |(tenant, budgets): (&Tenant, &OrderedBudgets)| {
            budgets.iter().map(|budget| (tenant.clone(), budget.clone())).collect::<Vec<_>>()
        };
        table.iter().flat_map(of).collect()
    }

    /// Returns the version of the stored budgets in use.
    #[must_use]
    pub fn version(&self) -> i64 {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the stored budgets and replaces the current ones. What this node holds of a changed budget is returned.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. Nothing changes then.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let (stored, version) = self.stores.budgets().await?;
        for (budget, spare) in self.install(stored, version) {
            self.give_back(budget.id, &budget.pool, spare).await?;
        }
        Ok(())
    }

    /// Installs the stored budgets. Returns what this node holds of changed ones.
    fn install(&self, stored: Vec<(Tenant, StoredBudget)>, version: i64) -> Vec<(Arc<Budget>, pool::Spare)> {
        let mut current = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // A concurrent reload may have installed a newer version.
        if version < *current {
            return Vec::new();
        }
        *current = version;
        let known: HashMap<Uuid, Arc<Budget>> = self.all().into_iter().map(|(_, budget)| (budget.id, budget)).collect();
        let (mut table, mut changed) = (HashMap::<Tenant, Vec<Arc<Budget>>>::new(), Vec::new());
        for (tenant, stored) in stored {
            let before = known.get(&stored.id);
            let pool = before.map_or_else(|| Arc::new(Pool::new(self.ids.next())), |budget| budget.pool.clone());
            if let Some(before) = before.filter(|budget| budget.definition != stored.definition) {
                pool.forget_refusal();
                changed.extend(pool.take_spare().map(|spare| (before.clone(), spare)));
            }
            let id = stored.id;
            match Budget::compile(stored, pool) {
                Ok(budget) => table.entry(tenant).or_default().push(Arc::new(budget)),
                // It was valid when it was stored.
                Err((pointer, reason)) => {
                    tracing::error!(%id, pointer, reason, "a stored budget is invalid; it does not apply")
                }
            }
        }
        self.has_any.store(!table.is_empty(), Ordering::Relaxed);
        self.table.store(Arc::new(table.into_iter().map(|(tenant, budgets)| (tenant, Arc::new(budgets))).collect()));
        changed
    }

    /// Returns the pool of a budget.
    fn pool(&self, tenant: &Tenant, budget: Uuid) -> Option<Arc<Pool>> {
        let budgets = self.for_tenant(tenant);
        budgets.iter().find(|one| one.id == budget).map(|budget| budget.pool.clone())
    }

    /// Sets what an ended call has used of each budget. The commit of its end must follow, and then
    /// [`Budgets::release`].
    pub fn settle(&self, call: &mut Call) {
        // A cached result costs nothing, and neither does a call that never ran.
        let has_run = call.started_at.is_some() && !call.cached;
        let cost = call.outcome.as_deref().and_then(reported_cost);
        let tenant = call.tenant.clone();
        call.settle_holds(|hold| {
            let amount = match has_run {
                true => Amount::of_call(cost.unwrap_or(hold.amount.cost)),
                false => Amount::default(),
            };
            // What another node has reserved ends with its allotment.
            let is_own = self.pool(&tenant, hold.budget).is_some_and(|pool| pool.owns(hold.allotment));
            let returned = if is_own { hold.amount - amount.min(hold.amount) } else { Amount::default() };
            BudgetUse { amount, returned }
        });
    }

    /// Releases the holds of a call that ends elsewhere, or whose end could not be recorded.
    pub fn hand_over(&self, tenant: &Tenant, holds: &[BudgetHold]) {
        for hold in holds {
            if let Some(pool) = self.pool(tenant, hold.budget) {
                pool.release(hold.allotment, Amount::default());
            }
        }
    }

    /// Makes what a call has not used available for other calls, after its end was committed.
    pub async fn release(&self, tenant: &Tenant, holds: &[BudgetHold]) {
        for hold in holds {
            let returned = hold.used.map_or(Amount::default(), |used| used.returned);
            let Some(pool) = self.pool(tenant, hold.budget) else { continue };
            if let Some(spare) = pool.release(hold.allotment, returned) {
                // The upkeep handles a failure.
                let _ = self.give_back(hold.budget, &pool, spare).await;
            }
        }
    }

    /// Returns a part of an allotment to its budget. If the result is unknown, the allotment is abandoned.
    async fn give_back(&self, budget: Uuid, pool: &Pool, (allotment, spare): pool::Spare) -> Result<(), StoreError> {
        let returned = self.stores.return_to_budget(budget, allotment, spare).await;
        if returned.is_err() {
            pool.abandon(allotment, self.ids.next());
        }
        returned
    }
}

#[cfg(test)]
mod tests;
