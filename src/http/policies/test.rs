//! `POST /policies/test`: what policies would have decided about stored calls.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::super::auth::require_all_tools;
use super::super::responses::Unavailable;
use super::super::{Api, BodyErrors, HttpResult, JsonBody, Problem, reply};
use super::definition_of;
use crate::domain::policy::PolicyDefinition;
use crate::domain::{Time, decode};
use crate::policies::{BacktestResult, backtest, with_policy};
use crate::policies::{Policy, PolicySource, sort};
use crate::store::calls::CallFilter;

/// Default and maximum number of evaluated calls.
const USUAL: u64 = 10_000;
const MAX: u64 = 1_000_000;

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

/// Tells what policies would have decided about stored calls. Nothing changes.
///
/// Calls with invalid arguments are left out, because policies never see them. The definitions of tools are those of
/// now. `before` is what was recorded.
#[utoipa::path(post, path = "/policies/test", operation_id = "test_policies", tag = "policies",
    request_body(content = TestBody, example = json!({"since": "2026-01-01T00:00:00.000Z", "policy": {"name": "no-echo", "when": "tool.name == 'echo'", "effect": "deny"}})),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The result", body = BacktestResult),
        (status = 422, description = "The body does not match the schema, or an expression does not compile"), BodyErrors, Unavailable))]
pub(in crate::http) async fn test(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
    require_all_tools(&access)?;
    let body: TestBody = body.read()?;
    let now = state.clock.now();
    let policies = policies_of(&body, &state.engine.policies().for_tenant(access.tenant()), now)?;
    let max = body.limit.unwrap_or(USUAL);
    if !(1..=MAX).contains(&max) {
        return Err(Problem::field("/limit", format!("must be 1 to {MAX}")));
    }
    let calls =
        CallFilter { name: body.name.clone(), since: Some(body.since), until: body.until, ..CallFilter::default() };
    let policies = (Arc::new(policies), state.engine.policies().bounds());
    Ok(reply::ok(&backtest(&access, policies, calls, max).await?))
}

/// Compiles the policies to try.
fn policies_of(body: &TestBody, in_force: &[Arc<Policy>], now: Time) -> HttpResult<Vec<Arc<Policy>>> {
    let compile = |pointer: String, value: &Value| {
        let definition = definition_of(value.clone()).map_err(|problem| problem.within(&pointer))?;
        let policy = Policy::compile(definition, PolicySource::Api, now);
        policy.map(Arc::new).map_err(|error| Problem::field(format!("{pointer}/when"), error.to_string()))
    };
    Ok(match (&body.policy, &body.policies) {
        (Some(policy), None) => {
            decode::expect_objects(policy, &[""])?;
            with_policy(in_force, compile("/policy".to_owned(), policy)?)
        }
        (None, Some(policies)) => {
            let compiled = policies.iter().enumerate().map(|(index, one)| compile(format!("/policies/{index}"), one));
            let mut policies = compiled.collect::<HttpResult<Vec<_>>>()?;
            sort(&mut policies);
            policies
        }
        _ => return Err(Problem::field("/policy", "either `policy` or `policies` is required")),
    })
}
