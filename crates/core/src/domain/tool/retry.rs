//! Retries of failed attempts, as declared by a tool and by a call.

use serde::{Deserialize, Serialize};

/// Retries of failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// Maximum number of attempts, including the first.
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: u32,
    /// Backoff before the second attempt, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: u64,
    /// Maximum backoff, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: u64,
    /// Factor between consecutive backoffs.
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: f64,
    /// Random share of the backoff, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: f64,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { max_attempts: 1, initial_backoff_ms: 1000, max_backoff_ms: 10_000, backoff_multiplier: 2.0, jitter: 0.5 }
    }
}

/// Retry settings of a call. Absent settings are taken from its tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOverride {
    /// Maximum number of attempts, including the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: Option<u32>,
    /// Backoff before the second attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: Option<u64>,
    /// Maximum backoff, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: Option<u64>,
    /// Factor between consecutive backoffs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: Option<f64>,
    /// Random share of the backoff, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
}

impl RetryOverride {
    /// Returns these settings, with absent settings taken from `those`.
    #[must_use]
    pub fn or(self, those: &Self) -> Self {
        Self {
            max_attempts: self.max_attempts.or(those.max_attempts),
            initial_backoff_ms: self.initial_backoff_ms.or(those.initial_backoff_ms),
            max_backoff_ms: self.max_backoff_ms.or(those.max_backoff_ms),
            backoff_multiplier: self.backoff_multiplier.or(those.backoff_multiplier),
            jitter: self.jitter.or(those.jitter),
        }
    }

    /// Returns the effective settings, with absent settings taken from the tool.
    #[must_use]
    pub fn over(&self, tool: &RetrySpec) -> RetrySpec {
        RetrySpec {
            max_attempts: self.max_attempts.unwrap_or(tool.max_attempts),
            initial_backoff_ms: self.initial_backoff_ms.unwrap_or(tool.initial_backoff_ms),
            max_backoff_ms: self.max_backoff_ms.unwrap_or(tool.max_backoff_ms),
            backoff_multiplier: self.backoff_multiplier.unwrap_or(tool.backoff_multiplier),
            jitter: self.jitter.unwrap_or(tool.jitter),
        }
    }
}
