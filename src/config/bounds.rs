//! Settings of event streams, and rate limits of tools.

use serde::Deserialize;

/// Settings of event streams.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    /// Maximum number of open event streams.
    pub max_subscribers: usize,
    /// Maximum number of open event streams of one key or subject; 0 disables the limit.
    pub max_subscribers_per_key: usize,
}

/// The rate limit of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolLimit {
    /// Maximum number of calls per minute; 0 disables the limit.
    pub rate_per_minute: u32,
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn tool_names_keep_their_case_and_unknown_fields_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Config::load(Some(&file)).map(|config| config.tools.limits)
        };
        let limits = read("[tools.limits.\"Mail.send-2\"]\nrate_per_minute = 30\n").unwrap();
        assert_eq!(limits["Mail.send-2"].rate_per_minute, 30);
        assert!(read("").unwrap().is_empty());
        assert!(read("[tools.limits.a]\nrate = 30\n").unwrap_err().to_string().contains("rate"));
    }
}
