//! `/stats`: statistics of all tools or a single tool.

use axum::extract::Path;
use serde::{Deserialize, Serialize};

use super::auth::require_all_tools;
use super::responses::{InvalidQuery, Unavailable};
use super::{Api, AppState, HttpResult, NoContent, Params, Problem, reply, tools};
use crate::access::Access;
use crate::domain::Time;
use crate::domain::stats::{StepStats, ToolStats, UNKNOWN_TOOL};
use crate::hooks::Counts;
use crate::store::stats::Series;

/// Maximum window of a series.
const MAX_WINDOW_MINUTES: i64 = 30 * 24 * 60;
/// The window if only the step is given.
const DEFAULT_WINDOW: &str = "1h";
/// Maximum number of steps of a series.
const MAX_STEPS: i64 = 7 * 24 * 60;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WindowParams {
    /// Adds a series for this period: `15m`, `1h`, `2d`, up to `30d`. If only `step` is given, `1h`.
    #[param(
        example = "1h",
        pattern = "^(([1-9][0-9]{0,5}|1[0-9]{6}|2[0-4][0-9]{5}|25[0-8][0-9]{4}|259[01][0-9]{3}|2592000)s|([1-9][0-9]{0,3}|[1-3][0-9]{4}|4[0-2][0-9]{3}|43[01][0-9]{2}|43200)m|([1-9][0-9]?|[1-6][0-9]{2}|7[01][0-9]|720)h|([1-9]|[12][0-9]|30)d)$"
    )]
    window: Option<String>,
    /// The length of a step of the series; by default a minute, or the shortest that gives at most 10,080 steps.
    #[serde(default)]
    step: Option<Step>,
}

/// The length of a step of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
pub(super) enum Step {
    #[serde(rename = "1m")]
    Minute,
    #[serde(rename = "5m")]
    FiveMinutes,
    #[serde(rename = "15m")]
    Quarter,
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "6h")]
    SixHours,
    #[serde(rename = "1d")]
    Day,
}

impl Step {
    const ALL: [Self; 6] = [Self::Minute, Self::FiveMinutes, Self::Quarter, Self::Hour, Self::SixHours, Self::Day];

    fn minutes(self) -> i64 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::Quarter => 15,
            Self::Hour => 60,
            Self::SixHours => 6 * 60,
            Self::Day => 24 * 60,
        }
    }
}

/// The requested series: since when, and in which steps.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Time,
    step: Step,
}

impl Window {
    /// Reads the parameters. The step that contains the start of the window is included completely.
    fn of(state: &AppState, params: &WindowParams) -> HttpResult<Option<Self>> {
        let Some(window) = params.window.as_deref().or(params.step.map(|_| DEFAULT_WINDOW)) else { return Ok(None) };
        let minutes =
            minutes(window).filter(|minutes| (1..=MAX_WINDOW_MINUTES).contains(minutes)).ok_or_else(|| {
                Problem::query("window must be a number followed by s, m, h or d, such as `1h`, up to `30d`")
            })?;
        let shortest = Step::ALL.into_iter().find(|step| minutes / step.minutes() <= MAX_STEPS).unwrap_or(Step::Day);
        let step = params.step.filter(|step| step.minutes() >= shortest.minutes()).unwrap_or(shortest);
        let first = (state.clock.now().minute() - (minutes - 1)).div_euclid(step.minutes()) * step.minutes();
        Ok(Some(Self { since: Time(first * 60_000_000), step }))
    }

    async fn series(self, access: &Access, tool: &str) -> HttpResult<Series> {
        Ok(access.store().stats_since(tool, self.since, self.step.minutes()).await?)
    }
}

/// The counts of one tool, with the requested series.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct StatsAnswer {
    #[serde(flatten)]
    stats: ToolStats,
    /// The counts of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<ToolStats>,
    /// The length of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Step>,
    /// The steps of the window in which calls ended, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<StepStats>>,
}

impl StatsAnswer {
    fn new(stats: ToolStats, series: Option<(Window, &Series)>) -> Self {
        let window = series.map(|(_, series)| series.total(&stats.tool_name));
        let (step, series) = (series.map(|(window, _)| window.step), series.map(|(_, series)| series.steps()));
        Self { stats, window, step, series }
    }
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
    /// The length of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Step>,
    /// The steps of the window in which calls of any of these tools, or of unknown tools, ended, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<StepStats>>,
}

/// Hook invocations by this node since it started, with their outcomes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct HookStats {
    /// Hook invocations.
    #[serde(rename = "asked_count")]
    invocation_count: u64,
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
            invocation_count: sum(Counts::invocations),
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
    let window = Window::of(&state, &params)?;
    let stored = access.store().stats(Some(&name)).await?.pop().filter(|_| access.caller().may_have(&name));
    // Deleted tools keep their counts.
    let stats = match stored.filter(|_| name != UNKNOWN_TOOL) {
        Some(stats) => stats,
        None => ToolStats::never_called(&tools::find(&access, &name)?.name),
    };
    let series = match window {
        Some(window) => Some((window, window.series(&access, &name).await?)),
        None => None,
    };
    Ok(reply::ok(&StatsAnswer::new(stats, series.as_ref().map(|(window, series)| (*window, series)))))
}

/// Reads the counts of all tools.
#[utoipa::path(get, path = "/stats", operation_id = "all_stats", tag = "stats", params(WindowParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The counts", body = AllStats), InvalidQuery, Unavailable))]
pub(super) async fn of_all(Api { state, access }: Api, Params(params): Params<WindowParams>) -> HttpResult {
    let window = Window::of(&state, &params)?;
    let mut stored = access.store().stats(None).await?;
    let unknown = stored.iter().position(|stats| stats.tool_name == UNKNOWN_TOOL).map(|index| stored.remove(index));
    stored.retain(|stats| access.caller().may_have(&stats.tool_name));
    let snapshot = access.snapshot().clone();
    for entry in access.view(&snapshot, None).all() {
        if stored.iter().all(|stats| stats.tool_name != *entry.name) {
            stored.push(ToolStats::never_called(&entry.name));
        }
    }
    stored.sort_by(|one, other| one.tool_name.cmp(&other.tool_name));
    let mut all = Series::default();
    let mut tools = Vec::with_capacity(stored.len());
    for stats in stored {
        let Some(window) = window else {
            tools.push(StatsAnswer::new(stats, None));
            continue;
        };
        let series = window.series(&access, &stats.tool_name).await?;
        all.merge(&series);
        tools.push(StatsAnswer::new(stats, Some((window, &series))));
    }
    if let Some(window) = window {
        all.merge(&window.series(&access, UNKNOWN_TOOL).await?);
    }
    let hooks = match access.tenant().is_default() {
        true => HookStats::sum(std::iter::once(state.engine.hooks().counts())),
        // For other tenants, the total is the sum over their own hooks.
        false => HookStats::sum(state.engine.hooks().all(access.tenant()).iter().map(|hook| &hook.counts)),
    };
    let unknown_tools = unknown.unwrap_or_else(|| ToolStats::never_called(UNKNOWN_TOOL));
    let (step, series) = (window.map(|window| window.step), window.map(|_| all.steps()));
    Ok(reply::ok(&AllStats { tools, unknown_tools, hooks, step, series }))
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
