//! How often, how well and how fast a tool runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Call, Code, Time};

/// The counts of one tool. Durations are those of executions; a call that never ran is only rejected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ToolStats {
    /// The tool.
    pub tool_name: String,
    /// Calls that ran and ended.
    pub execution_count: u64,
    /// Of these, the good ones.
    pub success_count: u64,
    /// Of these, the bad ones.
    pub failure_count: u64,
    /// The bad ones by code.
    pub failures_by_code: BTreeMap<String, u64>,
    /// Sum of durations.
    pub total_duration_ms: u64,
    /// Mean duration, rounded half up.
    pub average_duration_ms: u64,
    /// Shortest duration.
    pub min_duration_ms: u64,
    /// Longest duration.
    pub max_duration_ms: u64,
    /// Half of the executions were no slower (within 1 %).
    pub p50_duration_ms: u64,
    /// 95 of 100 were no slower (within 1 %).
    pub p95_duration_ms: u64,
    /// 99 of 100 were no slower (within 1 %).
    pub p99_duration_ms: u64,
    /// Attempts after the first.
    pub retry_count: u64,
    /// Answers from the cache.
    pub cache_hit_count: u64,
    /// Calls that never ran.
    pub rejected_count: u64,
    /// These by code.
    pub rejected_by_code: BTreeMap<String, u64>,
    /// When the last call ended.
    pub last_called_at: Option<Time>,
}

/// The counts of one minute.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct MinuteStats {
    /// The minute's beginning.
    pub minute: Time,
    /// Calls that ran and ended in it.
    pub execution_count: u64,
    /// Of these, the good ones.
    pub success_count: u64,
    /// Of these, the bad ones.
    pub failure_count: u64,
    /// Answers from the cache.
    pub cache_hit_count: u64,
    /// Calls that never ran.
    pub rejected_count: u64,
    /// Sum of durations.
    pub total_duration_ms: u64,
}

/// The name under which calls of unknown tools are counted; no tool can have it.
pub const UNKNOWN_TOOL: &str = "";

/// The code under which calls are counted that got a kept result: they neither ran nor were rejected.
pub const CACHED: &str = "CACHED";

/// What one settled call adds to the stats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The tool, or [`UNKNOWN_TOOL`].
    pub tool: &'a str,
    /// The failure's code, or [`CACHED`]; empty for a success.
    pub code: &'static str,
    /// Whether it ran.
    pub executed: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// Attempts after the first.
    pub retries: u32,
    /// When it ended.
    pub at: Time,
}

impl<'a> Sample<'a> {
    /// What a call adds; `None` before its end.
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

impl MinuteStats {
    /// A minute in which nothing ended yet.
    #[must_use]
    pub fn empty(minute: Time) -> Self {
        Self {
            minute,
            execution_count: 0,
            success_count: 0,
            failure_count: 0,
            cache_hit_count: 0,
            rejected_count: 0,
            total_duration_ms: 0,
        }
    }
}

impl ToolStats {
    /// A tool that was never called.
    #[must_use]
    pub fn never_called(tool_name: &str) -> Self {
        Self { tool_name: tool_name.to_owned(), ..Self::default() }
    }
}
