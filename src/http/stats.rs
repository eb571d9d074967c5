//! `/stats`: statistics of all tools or a single tool.

use axum::extract::Path;
use serde::{Deserialize, Serialize};

use super::auth::require_all_tools;
use super::responses::{InvalidQuery, Unavailable};
use super::{Api, AppState, HttpResult, NoContent, Params, Problem, reply, tools};
use crate::access::Access;
use crate::domain::Time;
use crate::domain::stats::{MinuteStats, ToolStats, UNKNOWN_TOOL};
use crate::hooks::Counts;

/// Maximum window of a series.
const MAX_WINDOW_MINUTES: i64 = 7 * 24 * 60;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WindowParams {
    /// Adds a series by minute for this period: `15m`, `1h`, `2d`, up to `7d`.
    #[param(
        example = "1h",
        pattern = "^(([1-9][0-9]{0,4}|[1-5][0-9]{5}|60[0-3][0-9]{3}|604[0-7][0-9]{2}|604800)s|([1-9][0-9]{0,3}|100[0-7][0-9]|10080)m|([1-9][0-9]?|1[0-5][0-9]|16[0-8])h|[1-7]d)$"
    )]
    window: Option<String>,
}

/// The counts of one tool, with the requested series.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct StatsAnswer {
    #[serde(flatten)]
    stats: ToolStats,
    /// The minutes of the window in which calls ended, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<MinuteStats>>,
}

/// The counts of all tools.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct AllStats {
    /// All current tools and all tools with recorded calls, by name.
    tools: Vec<StatsAnswer>,
    /// Calls of unknown tools.
    unknown_tools: ToolStats,
    /// Counts of hook invocations.
    hooks: HookStats,
}

/// Hook invocations by this node since it started, with their outcomes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct HookStats {
    /// Hook invocations.
    asked_count: u64,
    /// Invocations that failed or timed out.
    failed_count: u64,
    /// Calls that were blocked by a hook.
    blocked_count: u64,
    /// Notifications of ended calls that were dropped because the queue was full.
    dropped_count: u64,
}

impl HookStats {
    fn sum<'a>(hooks: impl Iterator<Item = &'a Counts> + Clone) -> Self {
        let sum = |count: fn(&Counts) -> u64| hooks.clone().map(count).sum();
        Self {
            asked_count: sum(Counts::asked),
            failed_count: sum(Counts::failed),
            blocked_count: sum(Counts::blocked),
            dropped_count: sum(Counts::dropped),
        }
    }
}

/// Reads the counts of a tool; zeros if it was never called.
#[utoipa::path(get, path = "/tools/{name}/stats", operation_id = "tool_stats", tag = "stats", params(("name" = String, Path, example = "echo", description = "The tool's name"), WindowParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The counts", body = StatsAnswer),
        (status = 404, description = "Unknown tool without recorded calls"), InvalidQuery, Unavailable))]
pub(super) async fn of_tool(
    Api { state, access }: Api,
    Path(name): Path<String>,
    Params(params): Params<WindowParams>,
) -> HttpResult {
    let since = since(&state, params.window.as_deref())?;
    let stored = access.store().stats(Some(&name)).await?.pop().filter(|_| access.caller().may_have(&name));
    // Deleted tools keep their counts.
    let stats = match stored.filter(|_| name != UNKNOWN_TOOL) {
        Some(stats) => stats,
        None => ToolStats::never_called(&tools::find(&access, &name)?.name),
    };
    let series = series(&access, &name, since).await?;
    Ok(reply::ok(&StatsAnswer { stats, series }))
}

/// Reads the counts of all tools.
#[utoipa::path(get, path = "/stats", operation_id = "all_stats", tag = "stats", params(WindowParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The counts", body = AllStats), InvalidQuery, Unavailable))]
pub(super) async fn of_all(Api { state, access }: Api, Params(params): Params<WindowParams>) -> HttpResult {
    let since = since(&state, params.window.as_deref())?;
    let mut stored = access.store().stats(None).await?;
    let unknown = stored.iter().position(|stats| stats.tool_name == UNKNOWN_TOOL).map(|place| stored.remove(place));
    stored.retain(|stats| access.caller().may_have(&stats.tool_name));
    let snapshot = access.snapshot().clone();
    for entry in access.view(&snapshot, None).all() {
        if stored.iter().all(|stats| stats.tool_name != *entry.name) {
            stored.push(ToolStats::never_called(&entry.name));
        }
    }
    stored.sort_by(|one, other| one.tool_name.cmp(&other.tool_name));
    let mut tools = Vec::with_capacity(stored.len());
    for stats in stored {
        let series = series(&access, &stats.tool_name, since).await?;
        tools.push(StatsAnswer { stats, series });
    }
    let hooks = match access.tenant().is_default() {
        true => HookStats::sum(std::iter::once(state.engine.hooks().counts())),
        // For other tenants, the total is the sum over their own hooks.
        false => HookStats::sum(state.engine.hooks().all(access.tenant()).iter().map(|hook| &hook.counts)),
    };
    let unknown_tools = unknown.unwrap_or_else(|| ToolStats::never_called(UNKNOWN_TOOL));
    Ok(reply::ok(&AllStats { tools, unknown_tools, hooks }))
}

/// Resets the counts of a tool to zero.
#[utoipa::path(delete, path = "/tools/{name}/stats", operation_id = "reset_tool_stats", tag = "stats", params(("name" = String, Path, example = "echo", description = "The tool's name")),
    security(("api_key" = ["tools"])),
    responses((status = 204, description = "Reset"),
        (status = 404, description = "Unknown tool without recorded calls"), Unavailable))]
pub(super) async fn reset_tool(access: Access, Path(name): Path<String>) -> HttpResult<NoContent> {
    if access.store().stats(Some(&name)).await?.is_empty() || !access.caller().may_have(&name) {
        tools::find(&access, &name)?;
    }
    access.store().reset_stats(Some(&name)).await?;
    Ok(NoContent)
}

/// Resets the counts of all tools to zero.
#[utoipa::path(delete, path = "/stats", operation_id = "reset_all_stats", tag = "stats",
    security(("api_key" = ["tools"])),
    responses((status = 204, description = "Reset"), Unavailable))]
pub(super) async fn reset_all(access: Access, Params(NoParams {}): Params<NoParams>) -> HttpResult<NoContent> {
    require_all_tools(&access)?;
    access.store().reset_stats(None).await?;
    Ok(NoContent)
}

/// An empty query. It rejects `?tool=…`, which callers might expect to select a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

async fn series(access: &Access, tool: &str, since: Option<Time>) -> HttpResult<Option<Vec<MinuteStats>>> {
    match since {
        Some(since) => Ok(Some(access.store().stats_by_minute(tool, since).await?)),
        None => Ok(None),
    }
}

/// Returns the start of the window. The minute that contains it is included completely.
fn since(state: &AppState, window: Option<&str>) -> HttpResult<Option<Time>> {
    let Some(window) = window else { return Ok(None) };
    let minutes = minutes(window)
        .filter(|minutes| (1..=MAX_WINDOW_MINUTES).contains(minutes))
        .ok_or_else(|| Problem::query("window must be a number followed by s, m, h or d, such as `1h`, up to `7d`"))?;
    Ok(Some(Time(state.clock.now().0 - (minutes - 1) * 60_000_000)))
}

fn minutes(window: &str) -> Option<i64> {
    let unit = window.chars().last()?;
    let digits = window.strip_suffix(unit).filter(|digits| digits.starts_with(|first| matches!(first, '1'..='9')))?;
    let number: i64 = digits.parse().ok()?;
    match unit {
        's' => Some(number.checked_add(59)? / 60),
        'm' => Some(number),
        'h' => number.checked_mul(60),
        'd' => number.checked_mul(24 * 60),
        _ => None,
    }
}
