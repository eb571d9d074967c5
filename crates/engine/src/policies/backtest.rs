//! What policies would have decided about stored calls.

use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use crate::access::Access;
use crate::policies::{Bounds, Input, OrderedPolicies, Policy, decide, sort};
use toolpost_core::domain::policy::PolicyEffect;
use toolpost_core::domain::{Call, Code};
use toolpost_store::store::StoreError;
use toolpost_store::store::calls::CallFilter;
use toolpost_store::store::history::HistoryFilter;

/// Number of calls read at a time.
const PAGE: u32 = 200;
/// Maximum number of examples.
const MAX_EXAMPLES: usize = 20;

/// The decision about a call, recorded or tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decided {
    /// It may run.
    Allow,
    /// It is forbidden.
    Deny,
    /// It needs approval.
    Approve,
    /// A policy cannot be evaluated for it, and forbids it.
    Failed,
}

/// A call about which the policies would have decided otherwise.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = PolicyTestExample)]
pub struct BacktestExample {
    /// The call.
    pub id: Uuid,
    /// The tool.
    pub name: String,
    /// What happened.
    pub before: Decided,
    /// What would have happened.
    pub after: Decided,
}

/// The decisions of policies about stored calls.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = PolicyTestResult)]
pub struct BacktestResult {
    /// Number of evaluated calls.
    pub evaluated: u64,
    /// Number of calls that may run.
    pub allowed: u64,
    /// Number of calls that are denied.
    pub denied: u64,
    /// Number of calls that need approval.
    pub approval: u64,
    /// Number of calls for which a policy cannot be evaluated. They would be denied.
    pub failed: u64,
    /// Number of calls about which was decided otherwise.
    pub changed: u64,
    /// Some of the changed calls, newest first.
    pub examples: Vec<BacktestExample>,
}

/// Evaluates policies on stored calls, newest first, but on at most `max` of them. Calls with invalid arguments are left
/// out, because policies never see them. The definitions of tools are those of now.
///
/// # Errors
/// Returns a [`StoreError`] if the database fails.
pub async fn backtest(
    access: &Access,
    (policies, bounds): (OrderedPolicies, Bounds),
    calls: CallFilter,
    max: u64,
) -> Result<BacktestResult, StoreError> {
    let calls = CallFilter { limit: PAGE, ..calls };
    let mut filter = HistoryFilter { calls, ..HistoryFilter::default() };
    let mut result = BacktestResult::default();
    while result.evaluated < max {
        let page = access.store().history(&filter, None).await?;
        for call in page.calls.iter().filter(|call| call.effective_arguments.is_some()) {
            if result.evaluated < max {
                result.add(call, decided(access, (policies.clone(), bounds), call).await);
            }
        }
        let Some(next) = page.next else { break };
        filter.calls.before = Some(next);
        tokio::task::yield_now().await;
    }
    Ok(result)
}

/// Returns the policies in force with a new one, which replaces the one of its name.
#[must_use]
pub fn with_policy(in_force: &[Arc<Policy>], new: Arc<Policy>) -> Vec<Arc<Policy>> {
    let others = in_force.iter().filter(|known| known.definition.name != new.definition.name);
    let mut policies: Vec<_> = others.cloned().chain([new.clone()]).collect();
    sort(&mut policies);
    policies
}

async fn decided(access: &Access, (policies, bounds): (OrderedPolicies, Bounds), call: &Call) -> Decided {
    let snapshot = access.snapshot();
    let tool = snapshot.get(&call.name).map(|tool| (tool.definition(), tool.made.source));
    let tool = tool.as_ref().map(|(definition, source)| (definition, *source));
    let arguments = call.effective_arguments.clone().unwrap_or_default();
    match decide(policies, Input::new(call, tool, &arguments, call.created_at), bounds).await {
        None => Decided::Allow,
        Some(verdict) if verdict.error.is_some() => Decided::Failed,
        Some(verdict) => match verdict.effect {
            PolicyEffect::Allow => Decided::Allow,
            PolicyEffect::Deny => Decided::Deny,
            PolicyEffect::Approve => Decided::Approve,
        },
    }
}

/// Returns what was decided about a stored call.
fn recorded(call: &Call) -> Decided {
    let failure = call.outcome.as_deref().and_then(|outcome| outcome.error.as_ref());
    match failure.map(|failure| failure.code) {
        Some(Code::PolicyDenied) => Decided::Deny,
        _ if call.approval.as_ref().is_some_and(|approval| approval.policy.is_some()) => Decided::Approve,
        _ => Decided::Allow,
    }
}

impl BacktestResult {
    fn add(&mut self, call: &Call, after: Decided) {
        self.evaluated += 1;
        let count = match after {
            Decided::Allow => &mut self.allowed,
            Decided::Deny => &mut self.denied,
            Decided::Approve => &mut self.approval,
            Decided::Failed => &mut self.failed,
        };
        *count += 1;
        let before = recorded(call);
        if before != after {
            self.changed += 1;
            if self.examples.len() < MAX_EXAMPLES {
                self.examples.push(BacktestExample { id: call.id, name: call.name.to_string(), before, after });
            }
        }
    }
}
