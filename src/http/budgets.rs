//! `/budgets`: limits on calls and cost within a window.

use std::sync::Arc;

use axum::extract::Path;
use serde::Serialize;
use serde_json::Value;

use super::auth::require_all_tools;
use super::responses::Unavailable;
use super::{Api, AppState, BodyErrors, HttpResult, JsonBody, NoContent, Problem, extract, reply};
use crate::access::Access;
use crate::budgets::{Budget, Usage, compile_globs};
use crate::domain::budget::{Amount, BudgetDefinition, Limit, MAX_CALLS, MAX_COST, MAX_WINDOW_MS, cost_of};
use crate::domain::schemas::Replacement;
use crate::domain::tool::is_valid_name;
use crate::domain::{Time, decode};

/// Members that responses add to a definition. They are ignored in requests, so that a budget can be read, changed and sent
/// back.
const READ_ONLY: [&str; 9] =
    ["created_at", "updated_at", "unit", "used", "reserved", "limit", "resets_at", "calls", "cost"];

/// The unit of `used`, `reserved` and `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A number of calls.
    Calls,
    /// A cost, in the unit of the tools' `cost`.
    Cost,
}

/// The use of one maximum of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
struct MaximumUsage {
    /// What ended calls have used within the window.
    #[schema(value_type = f64)]
    used: Quantity,
    /// What running calls have reserved, and what other nodes hold for their next calls.
    #[schema(value_type = f64)]
    reserved: Quantity,
    /// The maximum.
    #[schema(value_type = f64)]
    limit: Quantity,
}

/// A number of calls, or a cost. Whole numbers are integers in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
enum Quantity {
    Calls(i64),
    Cost(f64),
}

/// A budget with its use.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct BudgetView {
    /// The definition.
    #[serde(flatten)]
    pub definition: BudgetDefinition,
    /// The time of the creation.
    created_at: Time,
    /// The time of the last change.
    updated_at: Time,
    /// The unit of `used`, `reserved` and `limit`: that of the maximum which is nearer.
    pub unit: Unit,
    /// The use of the maximum which is nearer.
    #[serde(flatten)]
    nearer: MaximumUsage,
    /// When the oldest use leaves the window; `null` without use.
    pub resets_at: Option<Time>,
    /// The use of `max_calls`; `null` without this maximum.
    calls: Option<MaximumUsage>,
    /// The use of `max_cost`; `null` without this maximum.
    cost: Option<MaximumUsage>,
}

/// The response of `GET /budgets`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct BudgetList {
    /// All budgets by name.
    budgets: Vec<BudgetView>,
    /// The number of budgets.
    total: usize,
}

impl BudgetView {
    /// Creates the view of a budget with this use.
    #[must_use]
    pub fn new(budget: &Budget, usage: Usage) -> Self {
        let definition = budget.definition.clone();
        let Limit { calls, cost } = definition.limit();
        let of = |limit: i64, unit: fn(i64) -> Quantity, part: fn(Amount) -> i64| MaximumUsage {
            used: unit(part(usage.used)),
            reserved: unit(part(usage.reserved)),
            limit: unit(limit),
        };
        let share = |limit: i64, part: fn(Amount) -> i64| {
            // A maximum of 0 is always reached.
            part(usage.used + usage.reserved) as f64 / (limit as f64).max(f64::MIN_POSITIVE)
        };
        let calls_usage = calls.map(|limit| of(limit, Quantity::Calls, |amount| amount.calls));
        let cost_usage = cost.map(|limit| of(limit, |nanos| Quantity::Cost(cost_of(nanos)), |amount| amount.cost));
        let cost_is_nearer = match (calls, cost) {
            (Some(calls), Some(cost)) => share(cost, |amount| amount.cost) > share(calls, |amount| amount.calls),
            (calls, _) => calls.is_none(),
        };
        let none = MaximumUsage { used: Quantity::Calls(0), reserved: Quantity::Calls(0), limit: Quantity::Calls(0) };
        Self {
            created_at: budget.created_at,
            updated_at: budget.updated_at,
            unit: if cost_is_nearer { Unit::Cost } else { Unit::Calls },
            // One of the two exists in every definition.
            nearer: if cost_is_nearer { cost_usage } else { calls_usage }.unwrap_or(none),
            resets_at: usage.resets_at,
            calls: calls_usage,
            cost: cost_usage,
            definition,
        }
    }

    /// Returns `used`, `reserved` and `limit` as text.
    #[must_use]
    pub fn nearer_use(&self) -> [String; 3] {
        let MaximumUsage { used, reserved, limit } = self.nearer;
        [used, reserved, limit].map(|quantity| match quantity {
            Quantity::Calls(calls) => calls.to_string(),
            Quantity::Cost(cost) => cost.to_string(),
        })
    }
}

/// Lists the budgets with their use, by name.
#[utoipa::path(get, path = "/budgets", operation_id = "list_budgets", tag = "budgets",
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The budgets", body = BudgetList), Unavailable))]
pub(super) async fn list(Api { state, access }: Api) -> HttpResult {
    let all = state.engine.budgets().for_tenant(access.tenant());
    let mut budgets = Vec::with_capacity(all.len());
    for budget in all.iter() {
        budgets.push(view(&state, budget).await?);
    }
    Ok(reply::ok(&BudgetList { total: budgets.len(), budgets }))
}

/// Creates a budget. It counts calls of this node from the response on, and of all nodes within about a second.
#[utoipa::path(post, path = "/budgets", operation_id = "create_budget", tag = "budgets",
    request_body(content = BudgetDefinition, example = json!({"name": "mail-a-day", "match": {"tools": ["mail_*"]}, "window_ms": 86_400_000, "max_calls": 500})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Created", body = BudgetView, headers(("Location" = String))),
        (status = 409, description = "`BUDGET_EXISTS`: a budget of this name exists"),
        (status = 429, description = "`TOO_MANY_BUDGETS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The budget is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, body: JsonBody) -> HttpResult {
    // A budget counts calls of all tools.
    require_all_tools(&access)?;
    let definition = definition_of(body.value.clone())?;
    let name = definition.name.clone();
    if !access.store().put_budget(state.engine.new_id(), &definition, state.clock.now(), false).await? {
        return Err(Problem::conflict("BUDGET_EXISTS", format!("the budget \"{name}\" exists; replace it with PUT")));
    }
    state.engine.budgets().reload().await?;
    let created = view(&state, &*find(&state, &access, &name)?).await?;
    Ok(reply::created(&format!("/budgets/{name}"), reply::ok(&created)))
}

/// Returns a budget with its use.
#[utoipa::path(get, path = "/budgets/{name}", operation_id = "read_budget", tag = "budgets", params(("name" = String, Path, example = "mail-a-day", description = "The budget's name")),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The budget", body = BudgetView), (status = 404, description = "Unknown budget"), Unavailable))]
pub(super) async fn read(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult {
    Ok(reply::ok(&view(&state, &*find(&state, &access, &name)?).await?))
}

/// The body of a replacement. `utoipa` takes no generic type here.
type BudgetReplacement = Replacement<BudgetDefinition>;

/// Creates or replaces a budget. Its use stays.
#[utoipa::path(put, path = "/budgets/{name}", operation_id = "put_budget", tag = "budgets", params(("name" = String, Path, example = "mail-a-day", description = "The budget's name")),
    request_body(content = BudgetReplacement, example = json!({"name": "mail-a-day", "match": {"tools": ["mail_*"]}, "window_ms": 86_400_000, "max_calls": 1000, "max_cost": 20})),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The budget", body = BudgetView),
        (status = 429, description = "`TOO_MANY_BUDGETS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The budget is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn put(Api { state, access }: Api, Path(name): Path<String>, body: JsonBody) -> HttpResult {
    require_all_tools(&access)?;
    let definition = definition_of(extract::with_name(body.value.clone(), &name))?;
    extract::expect_name(&definition.name, &name)?;
    access.store().put_budget(state.engine.new_id(), &definition, state.clock.now(), true).await?;
    state.engine.budgets().reload().await?;
    Ok(reply::ok(&view(&state, &*find(&state, &access, &name)?).await?))
}

/// Deletes a budget with its use.
#[utoipa::path(delete, path = "/budgets/{name}", operation_id = "delete_budget", tag = "budgets", params(("name" = String, Path, example = "mail-a-day", description = "The budget's name")),
    security(("api_key" = ["admin"])),
    responses((status = 204, description = "Deleted"), (status = 404, description = "Unknown budget"), Unavailable))]
pub(super) async fn delete(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult<NoContent> {
    require_all_tools(&access)?;
    if !access.store().delete_budget(&name).await? {
        return Err(Problem::unknown("budget", &name));
    }
    state.engine.budgets().reload().await?;
    Ok(NoContent)
}

/// Reads and checks a definition.
fn definition_of(mut value: Value) -> HttpResult<BudgetDefinition> {
    decode::expect_objects(&value, &["", "/match"])?;
    decode::expect_strings(&value, &["/name"])?;
    if let Value::Object(members) = &mut value {
        READ_ONLY.iter().for_each(|name| drop(members.shift_remove(*name)));
    }
    let definition: BudgetDefinition = decode::read(value)?;
    if !is_valid_name(&definition.name) {
        let message = "must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
        return Err(Problem::field("/name", message));
    }
    if !(1..=MAX_WINDOW_MS).contains(&definition.window_ms) {
        return Err(Problem::field("/window_ms", format!("must be 1 to {MAX_WINDOW_MS}")));
    }
    if definition.max_calls.is_some_and(|calls| calls > MAX_CALLS) {
        return Err(Problem::field("/max_calls", format!("must be 0 to {MAX_CALLS}")));
    }
    if definition.max_cost.is_some_and(|cost| !(0.0..=MAX_COST).contains(&cost)) {
        return Err(Problem::field("/max_cost", format!("must be 0 to {MAX_COST}")));
    }
    if definition.max_calls.is_none() && definition.max_cost.is_none() {
        return Err(Problem::field("/max_calls", "is missing: a budget needs `max_calls`, `max_cost` or both"));
    }
    compile_globs(&definition).map_err(|(pointer, message)| Problem::field(&pointer, message))?;
    Ok(definition)
}

fn find(state: &AppState, access: &Access, name: &str) -> HttpResult<Arc<Budget>> {
    let all = state.engine.budgets().for_tenant(access.tenant());
    all.iter().find(|budget| budget.definition.name == name).cloned().ok_or_else(|| Problem::unknown("budget", name))
}

async fn view(state: &AppState, budget: &Budget) -> HttpResult<BudgetView> {
    Ok(BudgetView::new(budget, state.engine.budgets().usage(budget).await?))
}
