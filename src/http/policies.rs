//! `/policies`: rules that allow calls, deny them or ask for approval.

use std::sync::Arc;

use axum::extract::Path;
use serde::Serialize;
use serde_json::Value;

use super::auth::require_all_tools;
use super::responses::Unavailable;
use super::{Api, AppState, BodyErrors, HttpResult, JsonBody, NoContent, Problem, extract, reply};
use crate::access::Access;
use crate::domain::decode;
use crate::domain::policy::PolicyDefinition;
use crate::domain::schemas::Replacement;
use crate::policies::{Policy, PolicySource};

pub(super) mod test;

/// The response of `GET /policies`.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct PolicyList<'a> {
    /// All policies, in the order in which they are evaluated.
    policies: Vec<&'a Policy>,
    /// The number of policies.
    total: usize,
}

/// Lists the policies in the order in which they are evaluated.
#[utoipa::path(get, path = "/policies", operation_id = "list_policies", tag = "policies",
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The policies", body = PolicyList), Unavailable))]
pub(super) async fn list(Api { state, access }: Api) -> HttpResult {
    let all = state.engine.policies().for_tenant(access.tenant());
    Ok(reply::ok(&PolicyList { total: all.len(), policies: all.iter().map(|policy| &**policy).collect() }))
}

/// Creates a policy. It applies to this node from the response on, and to all nodes within about a second.
#[utoipa::path(post, path = "/policies", operation_id = "create_policy", tag = "policies",
    request_body(content = PolicyDefinition, example = json!({"name": "two-people-above-100", "when": "tool.name == 'pay' && args.amount > 100", "effect": "approve", "reason": "Large payments need approval"})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Created", body = Policy, headers(("Location" = String))),
        (status = 409, description = "`POLICY_EXISTS`: a policy of this name exists"),
        (status = 429, description = "`TOO_MANY_POLICIES`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The policy is invalid; see `errors`, which name line and column of the expression"), BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, body: JsonBody) -> HttpResult {
    // A policy applies to calls of all tools.
    require_all_tools(&access)?;
    let definition = definition_of(body.value.clone())?;
    let name = definition.name.clone();
    if is_fixed(&state, &access, &name) || !access.store().put_policy(&definition, state.clock.now(), false).await? {
        return Err(Problem::conflict("POLICY_EXISTS", format!("the policy \"{name}\" exists; replace it with PUT")));
    }
    state.engine.policies().reload(&state.stores).await?;
    let policy = find(&state, &access, &name)?;
    Ok(reply::created(&format!("/policies/{name}"), reply::ok(&*policy)))
}

/// Returns a policy.
#[utoipa::path(get, path = "/policies/{name}", operation_id = "read_policy", tag = "policies", params(("name" = String, Path, example = "only-deployers", description = "The policy's name")),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The policy", body = Policy), (status = 404, description = "Unknown policy")))]
pub(super) async fn read(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult {
    Ok(reply::ok(&*find(&state, &access, &name)?))
}

/// The body of a replacement. `utoipa` takes no generic type here.
type PolicyReplacement = Replacement<PolicyDefinition>;

/// Creates or replaces a policy.
#[utoipa::path(put, path = "/policies/{name}", operation_id = "put_policy", tag = "policies", params(("name" = String, Path, example = "only-deployers", description = "The policy's name")),
    request_body(content = PolicyReplacement, example = json!({"name": "only-deployers", "when": "tool.name.startsWith('deploy.') && !('deployers' in tool.groups)", "effect": "deny"})),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The policy", body = Policy),
        (status = 409, description = "`POLICY_READ_ONLY`: the policy is declared in the settings"),
        (status = 429, description = "`TOO_MANY_POLICIES`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The policy is invalid; see `errors`, which name line and column of the expression"), BodyErrors, Unavailable))]
pub(super) async fn put(Api { state, access }: Api, Path(name): Path<String>, body: JsonBody) -> HttpResult {
    require_all_tools(&access)?;
    let definition = definition_of(extract::with_name(body.value.clone(), &name))?;
    extract::expect_name(&definition.name, &name)?;
    check_writable(&state, &access, &name)?;
    access.store().put_policy(&definition, state.clock.now(), true).await?;
    state.engine.policies().reload(&state.stores).await?;
    Ok(reply::ok(&*find(&state, &access, &name)?))
}

/// Deletes a policy.
#[utoipa::path(delete, path = "/policies/{name}", operation_id = "delete_policy", tag = "policies", params(("name" = String, Path, example = "only-deployers", description = "The policy's name")),
    security(("api_key" = ["admin"])),
    responses((status = 204, description = "Deleted"), (status = 404, description = "Unknown policy"),
        (status = 409, description = "`POLICY_READ_ONLY`: the policy is declared in the settings"), Unavailable))]
pub(super) async fn delete(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult<NoContent> {
    require_all_tools(&access)?;
    check_writable(&state, &access, &name)?;
    if !access.store().delete_policy(&name).await? {
        return Err(Problem::unknown("policy", &name));
    }
    state.engine.policies().reload(&state.stores).await?;
    Ok(NoContent)
}

/// Reads a definition and compiles its condition.
fn definition_of(mut value: Value) -> HttpResult<PolicyDefinition> {
    decode::expect_objects(&value, &[""])?;
    decode::expect_strings(&value, &["/effect", "/when", "/name"])?;
    if let Value::Object(members) = &mut value {
        // What responses add, so that a policy can be read, changed and sent back.
        ["source", "created_at", "updated_at"].iter().for_each(|name| drop(members.shift_remove(*name)));
    }
    let definition: PolicyDefinition = decode::read(value)?;
    definition.check().map_err(|(pointer, message)| Problem::field(pointer, message))?;
    let condition = crate::policies::Condition::compile(&definition.when);
    condition.map_err(|error| Problem::field("/when", error.to_string()))?;
    Ok(definition)
}

fn find(state: &AppState, access: &Access, name: &str) -> HttpResult<Arc<Policy>> {
    let all = state.engine.policies().for_tenant(access.tenant());
    all.iter().find(|policy| policy.definition.name == name).cloned().ok_or_else(|| Problem::unknown("policy", name))
}

fn is_fixed(state: &AppState, access: &Access, name: &str) -> bool {
    find(state, access, name).is_ok_and(|policy| policy.source == PolicySource::Config)
}

fn check_writable(state: &AppState, access: &Access, name: &str) -> HttpResult<()> {
    if is_fixed(state, access, name) {
        let detail = format!("the policy \"{name}\" is declared in the settings and can only be changed there");
        return Err(Problem::conflict("POLICY_READ_ONLY", detail));
    }
    Ok(())
}
