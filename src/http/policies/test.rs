//! `POST /policies/test`: what policies would have decided about stored calls.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::auth::require_all_tools;
use super::super::responses::Unavailable;
use super::super::{Api, BodyErrors, HttpResult, JsonBody, Problem, reply};
use super::definition_of;
use crate::access::Access;
use crate::domain::policy::{PolicyDefinition, PolicyEffect};
use crate::domain::{Call, Code, Time, decode};
use crate::policies::{Input, Policy, PolicySource, evaluate, sort};
use crate::store::calls::CallFilter;
use crate::store::history::HistoryFilter;

/// Default and maximum number of evaluated calls.
const USUAL: u64 = 10_000;
const MAX: u64 = 1_000_000;
/// Number of calls read at a time.
const PAGE: u32 = 200;
/// Maximum number of examples.
const MAX_EXAMPLES: usize = 20;

/// The policies to try, and the calls to try them on.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PolicyTest)]
pub(in crate::http) struct TestBody {
    /// A policy that is added to those in force, or replaces the one of its name.
    #[serde(default)]
    #[schema(value_type = Option<PolicyDefinition>)]
    policy: Option<Value>,
    /// Policies that replace all in force.
    #[serde(default)]
    #[schema(value_type = Option<Vec<PolicyDefinition>>, max_items = 256)]
    policies: Option<Vec<Value>>,
    /// Only calls accepted at or after this time.
    since: Time,
    /// Only calls accepted before this time.
    #[serde(default)]
    until: Option<Time>,
    /// Only calls of this tool.
    #[serde(default)]
    name: Option<String>,
    /// Maximum number of evaluated calls, newest first.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000, default = 10_000)]
    limit: Option<u64>,
}

/// The decision about a call, recorded or tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Decided {
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
struct TestExample {
    /// The call.
    id: Uuid,
    /// The tool.
    name: String,
    /// What happened.
    before: Decided,
    /// What would have happened.
    after: Decided,
}

/// The result of a test.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = PolicyTestResult)]
struct TestResult {
    /// Number of evaluated calls.
    evaluated: u64,
    /// Number of calls that may run.
    allowed: u64,
    /// Number of calls that are denied.
    denied: u64,
    /// Number of calls that need approval.
    approval: u64,
    /// Number of calls for which a policy cannot be evaluated. They would be denied.
    failed: u64,
    /// Number of calls about which was decided otherwise.
    changed: u64,
    /// Some of the changed calls, newest first.
    examples: Vec<TestExample>,
}

/// Tells what policies would have decided about stored calls. Nothing changes.
///
/// Calls with invalid arguments are left out, because policies never see them. The definitions of tools are those of
/// now. `before` is what was recorded.
#[utoipa::path(post, path = "/policies/test", operation_id = "test_policies", tag = "policies",
    request_body(content = TestBody, example = json!({"since": "2026-01-01T00:00:00.000Z", "policy": {"name": "no-echo", "when": "tool.name == 'echo'", "effect": "deny"}})),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The result", body = TestResult),
        (status = 422, description = "The body does not match the schema, or an expression does not compile"), BodyErrors, Unavailable))]
pub(in crate::http) async fn test(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
    require_all_tools(&access)?;
    let body: TestBody = body.read()?;
    let now = state.clock.now();
    let policies = policies_of(&body, &state.engine.policies().of(access.tenant()), now)?;
    let most = body.limit.unwrap_or(USUAL);
    if !(1..=MAX).contains(&most) {
        return Err(Problem::field("/limit", format!("must be 1 to {MAX}")));
    }
    let calls = CallFilter {
        name: body.name.clone(),
        since: Some(body.since),
        until: body.until,
        limit: PAGE,
        ..CallFilter::default()
    };
    let mut filter = HistoryFilter { calls, ..HistoryFilter::default() };
    let mut result = TestResult::default();
    while result.evaluated < most {
        let page = access.store().history(&filter, None).await?;
        for call in page.calls.iter().filter(|call| call.effective_arguments.is_some()) {
            if result.evaluated < most {
                result.add(call, decide(&access, &policies, call));
            }
        }
        let Some(next) = page.next else { break };
        filter.calls.before = Some(next);
        tokio::task::yield_now().await;
    }
    Ok(reply::ok(&result))
}

/// Compiles the policies to try.
fn policies_of(body: &TestBody, in_force: &[Arc<Policy>], now: Time) -> HttpResult<Vec<Arc<Policy>>> {
    let compile = |pointer: String, value: &Value| {
        let definition = definition_of(value.clone()).map_err(|problem| problem.within(&pointer))?;
        let policy = Policy::compile(definition, PolicySource::Api, now);
        policy.map(Arc::new).map_err(|error| Problem::field(format!("{pointer}/when"), error.to_string()))
    };
    let mut policies = match (&body.policy, &body.policies) {
        (Some(policy), None) => {
            decode::expect_objects(policy, &[""])?;
            let new = compile("/policy".to_owned(), policy)?;
            let others = in_force.iter().filter(|known| known.definition.name != new.definition.name);
            others.cloned().chain([new.clone()]).collect()
        }
        (None, Some(policies)) => {
            let compiled = policies.iter().enumerate().map(|(place, one)| compile(format!("/policies/{place}"), one));
            compiled.collect::<HttpResult<Vec<_>>>()?
        }
        _ => return Err(Problem::field("/policy", "either `policy` or `policies` is required")),
    };
    sort(&mut policies);
    Ok(policies)
}

fn decide(access: &Access, policies: &[Arc<Policy>], call: &Call) -> Decided {
    let snapshot = access.snapshot();
    let tool = snapshot.get(&call.name).map(|tool| (tool.definition(), tool.made.source));
    let tool = tool.as_ref().map(|(definition, source)| (&**definition, *source));
    let arguments = call.effective_arguments.clone().unwrap_or_default();
    match evaluate(policies, &Input::new(call, tool, &arguments, call.created_at)) {
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

impl TestResult {
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
                self.examples.push(TestExample { id: call.id, name: call.name.to_string(), before, after });
            }
        }
    }
}
