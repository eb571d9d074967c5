//! How long what has happened is kept.

use serde::{Deserialize, Deserializer};

/// Idempotency keys are good for a day, and callbacks are tried for a little more: so long their calls have to be there.
const LEAST_MS: u64 = 2 * 24 * 60 * 60 * 1000;

/// Settings of how long what has happened is kept.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// Calls, from their end; 0 is for ever.
    #[serde(deserialize_with = "long_enough")]
    pub calls_ms: u64,
    /// What tools reported, from the end of their calls; 0 is as long as the calls.
    #[serde(deserialize_with = "long_enough")]
    pub events_ms: u64,
    /// Calls that are deleted in one transaction.
    pub batch: u32,
    /// The rest between two of them.
    pub pause_ms: u64,
}

fn long_enough<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        short if (1..LEAST_MS).contains(&short) => {
            let way_out = format!("{short} ms are too short to be kept: give {LEAST_MS} (two days) or more, or 0");
            Err(serde::de::Error::custom(way_out))
        }
        enough => Ok(enough),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn what_keys_and_callbacks_need_is_not_deleted_under_them() {
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
