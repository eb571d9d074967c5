//! Settings of calls that wait for others: approvals and worker programs.

use serde::{Deserialize, Deserializer, Serialize};

/// The minimum time after which the tools of a worker that is gone are removed.
const MIN_FORGET_MS: u64 = 1000;

/// Settings of worker programs.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkersConfig {
    /// Time after which the tools of a worker that is gone are removed; 0 keeps them.
    #[serde(deserialize_with = "forget_after")]
    pub forget_ms: u64,
}

fn forget_after<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        short if (1..MIN_FORGET_MS).contains(&short) => {
            let message = format!("{short} ms is too short: use at least {MIN_FORGET_MS}, or 0 to keep tools");
            Err(serde::de::Error::custom(message))
        }
        enough => Ok(enough),
    }
}

/// Bounds on the evaluation of expressions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpressionsConfig {
    /// Maximum number of steps of the policies for one call.
    pub max_steps: u64,
    /// Maximum memory of the values that the policies for one call create, in KiB.
    pub max_memory_kib: u64,
}

/// Settings of approvals.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalConfig {
    /// Whether the key or subject that made a call may approve it.
    pub allow_self: bool,
    /// URL that receives `approval.requested` and `approval.decided`; empty for none.
    pub notify_url: String,
}
