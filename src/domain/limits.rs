//! The bounds of one call: as declared, and as in force after precedence.

use serde::{Deserialize, Serialize};

/// Bounds as someone declares them; what is absent is decided further down: call > tool > session > server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSpec {
    /// Longest run of one attempt, in milliseconds.
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Longest silence of a running call, in milliseconds.
    #[schema(minimum = 1)]
    pub idle_timeout_ms: Option<u64>,
    /// Longest wait for a slot, in milliseconds.
    #[schema(minimum = 1)]
    pub queue_timeout_ms: Option<u64>,
    /// Most runs of the tool at once.
    #[schema(minimum = 1)]
    pub max_concurrency: Option<u32>,
    /// Longest output for the model, in bytes.
    #[schema(minimum = 1)]
    pub max_output_bytes: Option<u64>,
    /// Longest output for the model, in lines.
    #[schema(minimum = 1)]
    pub max_output_lines: Option<u64>,
    /// Which part of a longer output is kept.
    pub truncate: Option<Truncate>,
}

impl LimitsSpec {
    /// Field by field: these, or else those.
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

/// Which part of an output is kept when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// Both, with a gap in the middle.
    HeadTail,
}

/// Bounds in force for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Limits {
    /// Longest run of one attempt, in milliseconds.
    pub timeout_ms: u64,
}

/// What the server gives where nobody says anything, and what nobody may exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerLimits {
    /// Default `timeout_ms` of a synchronous tool.
    pub timeout_ms: u64,
    /// Largest `timeout_ms` that a call or a tool can have; larger ones are lowered to it.
    pub max_timeout_ms: u64,
}

impl Limits {
    /// Field by field: call > tool > server, and never over the server's maximum.
    #[must_use]
    pub fn effective(call: &LimitsSpec, tool: &LimitsSpec, server: &ServerLimits) -> Self {
        let timeout = call.timeout_ms.or(tool.timeout_ms).unwrap_or(server.timeout_ms);
        Self { timeout_ms: timeout.min(server.max_timeout_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_wins_over_the_tool_over_the_server_up_to_the_maximum() {
        let server = ServerLimits { timeout_ms: 30, max_timeout_ms: 100 };
        let of = |timeout_ms| LimitsSpec { timeout_ms, ..LimitsSpec::default() };
        assert_eq!(Limits::effective(&of(None), &of(None), &server).timeout_ms, 30);
        assert_eq!(Limits::effective(&of(None), &of(Some(40)), &server).timeout_ms, 40);
        assert_eq!(Limits::effective(&of(Some(50)), &of(Some(40)), &server).timeout_ms, 50);
        assert_eq!(Limits::effective(&of(Some(500)), &of(Some(40)), &server).timeout_ms, 100);
    }
}
