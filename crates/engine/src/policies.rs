//! Policies: rules that allow calls, deny them, or ask for the approval of a person.
//!
//! A policy is declared in the settings or stored in the database, which all nodes share. While no policy exists, a call
//! pays only for one atomic load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::Serialize;

use toolpost_core::domain::policy::{PolicyDefinition, PolicyEffect};
use toolpost_core::domain::{Tenant, Time, json};
use toolpost_store::store::policies::StoredPolicy;
use toolpost_store::store::{StoreError, Stores};

mod backtest;
mod input;
mod instrument;
mod meter;
mod pattern;
mod program;

pub use backtest::{BacktestResult, backtest, with_policy};
use input::ArgumentsSize;
pub use input::{Input, Variables};
pub use meter::Bounds;
pub use program::{Condition, Evaluation, ExpressionError};

/// The source of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicySource {
    /// Declared in the settings. It comes first and cannot be changed over the API.
    Config,
    /// Stored over the API.
    Api,
}

/// A compiled policy.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Policy {
    /// The definition.
    #[serde(flatten)]
    pub definition: PolicyDefinition,
    /// The source.
    pub source: PolicySource,
    /// The time of the creation. For policies of the settings, the start of the service.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
    /// A condition that no longer compiles matches no call and denies all.
    #[serde(skip)]
    condition: Result<Condition, ExpressionError>,
}

/// The decision of the first policy that matches a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The policy that decided.
    pub policy: String,
    /// What it decided.
    pub effect: PolicyEffect,
    /// The reason that it gives.
    pub reason: Option<String>,
    /// Why it could not be evaluated; it then denies.
    pub error: Option<String>,
}

/// Policies in the order in which they are evaluated.
pub type OrderedPolicies = Arc<Vec<Arc<Policy>>>;

/// The policies of all tenants.
#[derive(Debug, Default)]
struct PolicyTable {
    /// The policies of the settings, which apply to all tenants.
    fixed: OrderedPolicies,
    /// The fixed policies and the tenant's own, for each tenant that has any.
    of: HashMap<Tenant, OrderedPolicies>,
}

/// All policies of a node.
#[derive(Debug)]
pub struct Policies {
    fixed: Vec<Arc<Policy>>,
    table: ArcSwap<PolicyTable>,
    has_any: AtomicBool,
    /// The version of the stored policies in the table.
    version: Mutex<i64>,
    bounds: Bounds,
}

impl Policy {
    /// Compiles a policy.
    ///
    /// # Errors
    /// Returns an [`ExpressionError`] if the condition does not compile.
    pub fn compile(definition: PolicyDefinition, source: PolicySource, at: Time) -> Result<Self, ExpressionError> {
        let condition = Condition::compile(&definition.when)?;
        Ok(Self { definition, source, created_at: at, updated_at: at, condition: Ok(condition) })
    }

    fn stored(stored: StoredPolicy) -> Self {
        let StoredPolicy { definition, created_at, updated_at } = stored;
        let condition = Condition::compile(&definition.when);
        if let Err(error) = &condition {
            tracing::error!(policy = definition.name, %error, "a stored policy does not compile; it denies every call");
        }
        Self { definition, source: PolicySource::Api, created_at, updated_at, condition }
    }
}

/// Evaluates policies in order. Returns the decision of the first policy that matches or cannot be evaluated, or `None` if
/// none matches. An evaluation that may take long runs on another thread, because it would block other tasks.
pub async fn decide(policies: OrderedPolicies, input: Input, bounds: Bounds) -> Option<Verdict> {
    let is_short = |policy: &Arc<Policy>| policy.condition.as_ref().map_or(true, Condition::is_short);
    let size = input.size();
    if size != ArgumentsSize::Large && policies.iter().all(is_short) {
        return evaluate(&policies, &input, size, bounds);
    }
    let first = policies.iter().find(|policy| policy.definition.enabled)?.definition.name.clone();
    let evaluated = tokio::task::spawn_blocking(move || evaluate(&policies, &input, size, bounds)).await;
    // The evaluation panicked, or the service stops.
    evaluated.unwrap_or_else(|_| Some(denied(first, "it could not be evaluated".to_owned())))
}

/// Evaluates policies in order on this thread.
fn evaluate(policies: &[Arc<Policy>], input: &Input, size: ArgumentsSize, bounds: Bounds) -> Option<Verdict> {
    let mut enabled = policies.iter().filter(|policy| policy.definition.enabled).peekable();
    let first = &enabled.peek()?.definition.name;
    if size == ArgumentsSize::TooLarge {
        let error = format!("the arguments have more than {} KiB", input::MAX_ARGUMENTS / 1024);
        return Some(denied(first.clone(), error));
    }
    let variables = Variables::new(input);
    let evaluation = match Evaluation::new(&variables, bounds) {
        Ok(evaluation) => evaluation,
        Err(error) => return Some(denied(first.clone(), error.to_string())),
    };
    enabled.find_map(|policy| {
        let matched = match &policy.condition {
            Ok(condition) => condition.matches(&evaluation),
            Err(error) => Err(error.to_string()),
        };
        let PolicyDefinition { name, effect, reason, .. } = &policy.definition;
        match matched {
            Ok(false) => None,
            Ok(true) => Some(Verdict { policy: name.clone(), effect: *effect, reason: reason.clone(), error: None }),
            Err(error) => Some(Verdict { reason: reason.clone(), ..denied(name.clone(), json::shorten(&error, 500)) }),
        }
    })
}

/// Returns the decision of a policy that cannot be evaluated.
fn denied(policy: String, error: String) -> Verdict {
    Verdict { policy, effect: PolicyEffect::Deny, reason: None, error: Some(error) }
}

/// Sorts policies in the order in which they are evaluated: those of the settings in their order, and stored ones by name
/// within a priority.
pub fn sort(policies: &mut [Arc<Policy>]) {
    policies.sort_by_key(|policy| {
        let PolicyDefinition { name, priority, .. } = &policy.definition;
        let is_stored = policy.source == PolicySource::Api;
        (is_stored, std::cmp::Reverse(*priority), if is_stored { name.clone() } else { String::new() })
    });
}

impl Policies {
    /// Creates the policies of the settings. [`Policies::reload`] adds the stored ones.
    ///
    /// # Errors
    /// Returns the name of an invalid policy with its error.
    pub fn new(declared: &[PolicyDefinition], bounds: Bounds, now: Time) -> Result<Self, (String, ExpressionError)> {
        let compile = |definition: &PolicyDefinition| {
            let compiled = Policy::compile(definition.clone(), PolicySource::Config, now);
            compiled.map(Arc::new).map_err(|error| (definition.name.clone(), error))
        };
        let fixed = declared.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let (table, has_any) = (ArcSwap::default(), AtomicBool::new(false));
        let policies = Self { fixed, table, has_any, version: Mutex::new(-1), bounds };
        policies.publish(HashMap::new());
        Ok(policies)
    }

    /// Returns `true` if any policy of any tenant exists.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// Returns the policies that apply to a tenant, in the order in which they are evaluated.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> OrderedPolicies {
        let table = self.table.load();
        table.of.get(tenant).unwrap_or(&table.fixed).clone()
    }

    /// Returns the bounds on the evaluation of the policies for one call.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns the version of the stored policies in use.
    #[must_use]
    pub fn version(&self) -> i64 {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the stored policies and replaces the current ones.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. Nothing changes then.
    pub async fn reload(&self, stores: &Stores) -> Result<(), StoreError> {
        let (stored, version) = stores.policies().await?;
        let mut compiled: HashMap<Tenant, Vec<Arc<Policy>>> = HashMap::new();
        for (tenant, stored) in stored {
            compiled.entry(tenant).or_default().push(Arc::new(Policy::stored(stored)));
        }
        let mut current = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // A concurrent reload may have installed a newer version.
        if version >= *current {
            *current = version;
            self.publish(compiled);
        }
        Ok(())
    }

    fn publish(&self, stored: HashMap<Tenant, Vec<Arc<Policy>>>) {
        let in_order = |own: Vec<Arc<Policy>>| {
            let mut all: Vec<Arc<Policy>> = self.fixed.iter().cloned().chain(own).collect();
            sort(&mut all);
            Arc::new(all)
        };
        let of: HashMap<Tenant, OrderedPolicies> =
            stored.into_iter().map(|(tenant, own)| (tenant, in_order(own))).collect();
        self.has_any.store(!self.fixed.is_empty() || !of.is_empty(), Ordering::Relaxed);
        self.table.store(Arc::new(PolicyTable { fixed: in_order(Vec::new()), of }));
    }
}

#[cfg(test)]
mod tests;
