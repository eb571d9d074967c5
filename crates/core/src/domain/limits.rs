//! Limits of a call: as declared, and as effective after precedence.

use serde::{Deserialize, Serialize};

/// Default maximum output for the model, in bytes.
pub const MAX_OUTPUT_BYTES: u64 = 51_200;
/// Default maximum output for the model, in lines.
pub const MAX_OUTPUT_LINES: u64 = 2000;

/// Declared limits. Absent limits are inherited, in the order call, tool, session, server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSpec {
    /// Maximum duration of an attempt, in milliseconds.
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Maximum time without output from a running call, in milliseconds.
    #[schema(minimum = 1)]
    pub idle_timeout_ms: Option<u64>,
    /// Maximum time that a call waits for a slot, in milliseconds.
    #[schema(minimum = 1)]
    pub queue_timeout_ms: Option<u64>,
    /// Maximum number of concurrent runs of the tool.
    #[schema(minimum = 1)]
    pub max_concurrency: Option<u32>,
    /// Maximum output for the model, in bytes.
    #[schema(minimum = 1)]
    pub max_output_bytes: Option<u64>,
    /// Maximum output for the model, in lines.
    #[schema(minimum = 1)]
    pub max_output_lines: Option<u64>,
    /// The part of a longer output that is kept.
    pub truncate: Option<Truncate>,
}

impl LimitsSpec {
    /// Returns these limits, with absent limits taken from `those`.
    #[must_use]
    pub fn or(self, those: &Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.or(those.timeout_ms),
            idle_timeout_ms: self.idle_timeout_ms.or(those.idle_timeout_ms),
            queue_timeout_ms: self.queue_timeout_ms.or(those.queue_timeout_ms),
            max_concurrency: self.max_concurrency.or(those.max_concurrency),
            max_output_bytes: self.max_output_bytes.or(those.max_output_bytes),
            max_output_lines: self.max_output_lines.or(those.max_output_lines),
            truncate: self.truncate.or(those.truncate),
        }
    }
}

/// The part of an output that is kept when the output is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// The beginning.
    #[default]
    Head,
    /// The end.
    Tail,
    /// The beginning and the end, with a gap in the middle.
    HeadTail,
}

/// The part of a text that is shown to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of bytes.
    pub bytes: u64,
    /// Maximum number of lines.
    pub lines: u64,
    /// The part that is kept.
    pub keep: Truncate,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: MAX_OUTPUT_BYTES, lines: MAX_OUTPUT_LINES, keep: Truncate::Head }
    }
}

/// The effective limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Limits {
    /// Maximum duration of an attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Maximum time without output from a running call, in milliseconds; absent if only `timeout_ms` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Maximum time that the call waits for a slot, in milliseconds; absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// Maximum number of concurrent runs of the tool on one node; absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Maximum output for the model, in bytes.
    #[serde(default = "max_output_bytes")]
    pub max_output_bytes: u64,
    /// Maximum output for the model, in lines.
    #[serde(default = "max_output_lines")]
    pub max_output_lines: u64,
    /// The part of a longer output that is kept.
    #[serde(default)]
    pub truncate: Truncate,
}

fn max_output_bytes() -> u64 {
    MAX_OUTPUT_BYTES
}

fn max_output_lines() -> u64 {
    MAX_OUTPUT_LINES
}

/// Server-wide defaults and maximums for the limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerLimits {
    /// Default `timeout_ms` of a synchronous tool.
    pub timeout_ms: u64,
    /// Default `timeout_ms` of an `async` tool.
    pub async_timeout_ms: u64,
    /// Default `idle_timeout_ms`; 0 disables it.
    pub idle_timeout_ms: u64,
    /// Default `queue_timeout_ms`; 0 disables it.
    pub queue_timeout_ms: u64,
    /// Maximum `timeout_ms` of a tool or a call; larger values are reduced to it.
    pub max_timeout_ms: u64,
    /// Default `max_output_bytes`.
    pub max_output_bytes: u64,
    /// Default `max_output_lines`.
    pub max_output_lines: u64,
    /// Default `truncate`.
    pub truncate: Truncate,
}

/// The rule that pauses tools that time out repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRule {
    /// Number of consecutive timeouts that pause a tool; 0 disables pauses.
    pub after_timeouts: u32,
    /// Duration of a pause, in milliseconds.
    pub cooldown_ms: u64,
}

impl Limits {
    /// Returns the effective limits, in the order call, tool, server. `timeout_ms` is at most the server's maximum, and
    /// a call can only reduce `max_concurrency` of its tool.
    #[must_use]
    pub fn effective(call: &LimitsSpec, tool: &LimitsSpec, server: &ServerLimits, is_async: bool) -> Self {
        let given = |server: u64| Some(server).filter(|ms| *ms > 0);
        let usual = if is_async { server.async_timeout_ms } else { server.timeout_ms };
        let timeout = call.timeout_ms.or(tool.timeout_ms).unwrap_or(usual);
        let concurrency = [call.max_concurrency, tool.max_concurrency].into_iter().flatten().min();
        Self {
            timeout_ms: timeout.min(server.max_timeout_ms),
            idle_timeout_ms: call.idle_timeout_ms.or(tool.idle_timeout_ms).or(given(server.idle_timeout_ms)),
            queue_timeout_ms: call.queue_timeout_ms.or(tool.queue_timeout_ms).or(given(server.queue_timeout_ms)),
            max_concurrency: concurrency,
            max_output_bytes: call.max_output_bytes.or(tool.max_output_bytes).unwrap_or(server.max_output_bytes),
            max_output_lines: call.max_output_lines.or(tool.max_output_lines).unwrap_or(server.max_output_lines),
            truncate: call.truncate.or(tool.truncate).unwrap_or(server.truncate),
        }
    }

    /// Returns the part of a result that is shown to the model.
    #[must_use]
    pub fn output(&self) -> Bounds {
        Bounds { bytes: self.max_output_bytes, lines: self.max_output_lines, keep: self.truncate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_overrides_tool_overrides_server_up_to_the_maximum() {
        let server = ServerLimits {
            timeout_ms: 30,
            async_timeout_ms: 60,
            idle_timeout_ms: 0,
            queue_timeout_ms: 7,
            max_timeout_ms: 100,
            max_output_bytes: 9,
            max_output_lines: 8,
            truncate: Truncate::Tail,
        };
        let of = |timeout_ms| LimitsSpec { timeout_ms, ..LimitsSpec::default() };
        let timeout = |call, tool| Limits::effective(&of(call), &of(tool), &server, false).timeout_ms;
        assert_eq!(timeout(None, None), 30);
        assert_eq!(timeout(None, Some(40)), 40);
        assert_eq!(timeout(Some(50), Some(40)), 50);
        assert_eq!(timeout(Some(500), Some(40)), 100);
        let asynchronous = Limits::effective(&of(None), &of(None), &server, true);
        assert_eq!(asynchronous.timeout_ms, 60);
        assert_eq!((asynchronous.idle_timeout_ms, asynchronous.queue_timeout_ms), (None, Some(7)));
        assert_eq!(asynchronous.output(), Bounds { bytes: 9, lines: 8, keep: Truncate::Tail });
        let lines = LimitsSpec { max_output_lines: Some(3), truncate: Some(Truncate::HeadTail), ..of(None) };
        let bytes = LimitsSpec { max_output_bytes: Some(2), truncate: Some(Truncate::Head), ..of(None) };
        let mixed = Limits::effective(&bytes, &lines, &server, false).output();
        assert_eq!(mixed, Bounds { bytes: 2, lines: 3, keep: Truncate::Head });
    }

    #[test]
    fn call_can_only_reduce_max_concurrency() {
        let server = crate::domain::limits::ServerLimits {
            timeout_ms: 1,
            async_timeout_ms: 1,
            idle_timeout_ms: 0,
            queue_timeout_ms: 0,
            max_timeout_ms: 1,
            max_output_bytes: 1,
            max_output_lines: 1,
            truncate: Truncate::Head,
        };
        let of = |max_concurrency| LimitsSpec { max_concurrency, ..LimitsSpec::default() };
        let max_concurrency_of = |call, tool| Limits::effective(&of(call), &of(tool), &server, false).max_concurrency;
        assert_eq!(max_concurrency_of(Some(1), Some(2)), Some(1));
        assert_eq!(max_concurrency_of(Some(9), Some(2)), Some(2));
        assert_eq!((max_concurrency_of(None, None), max_concurrency_of(Some(3), None)), (None, Some(3)));
    }
}
