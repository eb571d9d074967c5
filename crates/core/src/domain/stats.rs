//! Statistics of tools: counts, outcomes and durations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Call, Code, Time};

/// The statistics of one tool. Durations include only executed calls; a call that never ran counts as rejected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolStats {
    /// The name of the tool.
    pub tool_name: String,
    /// Number of calls that ran and ended.
    pub execution_count: u64,
    /// Number of executed calls that succeeded.
    pub success_count: u64,
    /// Number of executed calls that failed.
    pub failure_count: u64,
    /// Number of executed calls that failed, by code.
    pub failures_by_code: BTreeMap<String, u64>,
    /// Sum of durations.
    pub total_duration_ms: u64,
    /// Mean duration, rounded half up.
    pub average_duration_ms: u64,
    /// Shortest duration.
    pub min_duration_ms: u64,
    /// Longest duration.
    pub max_duration_ms: u64,
    /// Median duration (within 1 %).
    pub p50_duration_ms: u64,
    /// 95th percentile of the durations (within 1 %).
    pub p95_duration_ms: u64,
    /// 99th percentile of the durations (within 1 %).
    pub p99_duration_ms: u64,
    /// Number of attempts after the first.
    pub retry_count: u64,
    /// Number of calls answered from the cache.
    pub cache_hit_count: u64,
    /// Number of calls that never ran.
    pub rejected_count: u64,
    /// Number of calls that never ran, by code.
    pub rejected_by_code: BTreeMap<String, u64>,
    /// End of the last call.
    pub last_called_at: Option<Time>,
}

/// The statistics of one step of a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct StepStats {
    /// Start of the step, which is the first of its minutes.
    pub minute: Time,
    /// Number of calls that ran, and ended in this step.
    pub execution_count: u64,
    /// Number of executed calls that succeeded.
    pub success_count: u64,
    /// Number of executed calls that failed.
    pub failure_count: u64,
    /// Number of executed calls that failed, by code.
    pub failures_by_code: BTreeMap<String, u64>,
    /// Number of calls answered from the cache.
    pub cache_hit_count: u64,
    /// Number of calls that never ran.
    pub rejected_count: u64,
    /// Number of calls that never ran, by code.
    pub rejected_by_code: BTreeMap<String, u64>,
    /// Sum of durations.
    pub total_duration_ms: u64,
    /// Longest duration.
    pub max_duration_ms: u64,
    /// Median duration (within 1 %).
    pub p50_duration_ms: u64,
    /// 95th percentile of the durations (within 1 %).
    pub p95_duration_ms: u64,
    /// 99th percentile of the durations (within 1 %).
    pub p99_duration_ms: u64,
}

impl StepStats {
    /// Returns the statistics of the step that begins at this minute.
    #[must_use]
    pub fn of(minute: Time, stats: ToolStats) -> Self {
        Self {
            minute,
            execution_count: stats.execution_count,
            success_count: stats.success_count,
            failure_count: stats.failure_count,
            failures_by_code: stats.failures_by_code,
            cache_hit_count: stats.cache_hit_count,
            rejected_count: stats.rejected_count,
            rejected_by_code: stats.rejected_by_code,
            total_duration_ms: stats.total_duration_ms,
            max_duration_ms: stats.max_duration_ms,
            p50_duration_ms: stats.p50_duration_ms,
            p95_duration_ms: stats.p95_duration_ms,
            p99_duration_ms: stats.p99_duration_ms,
        }
    }
}

/// The name for calls of unknown tools. No tool can have this name.
pub const UNKNOWN_TOOL: &str = "";

/// The code for calls answered from the cache, which neither ran nor were rejected.
pub const CACHED: &str = "CACHED";

/// The contribution of one ended call to the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The name of the tool, or [`UNKNOWN_TOOL`].
    pub tool: &'a str,
    /// The code of the failure, or [`CACHED`]; empty for a success.
    pub code: &'static str,
    /// Whether the call ran.
    pub executed: bool,
    /// The duration of the execution.
    pub duration_ms: u64,
    /// Number of attempts after the first.
    pub retries: u32,
    /// The end of the call.
    pub at: Time,
}

impl<'a> Sample<'a> {
    /// Returns the contribution of a call, or `None` before its end.
    #[must_use]
    pub fn of(call: &'a Call) -> Option<Self> {
        let (outcome, at) = (call.outcome.as_ref()?, call.ended_at?);
        let code = outcome.error.as_ref().map(|failure| failure.code);
        Some(Self {
            tool: if code == Some(Code::ToolNotFound) { UNKNOWN_TOOL } else { &call.name },
            code: if call.cached { CACHED } else { code.map_or("", Code::as_str) },
            executed: call.started_at.is_some() && !call.cached,
            duration_ms: call.duration_ms()?,
            retries: call.runs().saturating_sub(1),
            at,
        })
    }
}

impl ToolStats {
    /// Creates the statistics of a tool that was never called.
    #[must_use]
    pub fn never_called(tool_name: &str) -> Self {
        Self { tool_name: tool_name.to_owned(), ..Self::default() }
    }
}
