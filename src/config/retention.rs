//! Retention of calls and events.

use serde::{Deserialize, Deserializer};

/// The minimum retention. Idempotency keys are valid for one day, and callbacks are retried slightly longer; both need
/// their calls.
const MIN_MS: u64 = 2 * 24 * 60 * 60 * 1000;

/// Settings of the retention of calls and events.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// Retention of calls after their end; 0 keeps them forever.
    #[serde(deserialize_with = "long_enough")]
    pub calls_ms: u64,
    /// Retention of progress reports after the end of their calls; 0 keeps them as long as the calls.
    #[serde(deserialize_with = "long_enough")]
    pub events_ms: u64,
    /// Approximate number of calls that one transaction deletes.
    pub batch: u32,
    /// Pause between two transactions.
    pub pause_ms: u64,
}

fn long_enough<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        short if (1..MIN_MS).contains(&short) => {
            let message = format!("a retention of {short} ms is too short: use at least {MIN_MS} (two days), or 0");
            Err(serde::de::Error::custom(message))
        }
        enough => Ok(enough),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn retention_below_two_days_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Config::load(Some(&file)).map(|config| config.retention)
        };
        assert_eq!(read("[retention]\ncalls_ms = 172800000\n").unwrap().calls_ms, 172_800_000);
        assert_eq!(read("").unwrap().calls_ms, 0);
        let refused = read("[retention]\ncalls_ms = 86400000\n").unwrap_err().to_string();
        assert!(refused.contains("172800000") && refused.contains("calls_ms"), "{refused}");
    }
}
