//! How much of something there may be, where it has no section of its own.

use serde::Deserialize;

/// Settings of who reads events.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    /// Most streams at once.
    pub max_subscribers: usize,
    /// Most of them of one key or subject; 0 is no bound of its own.
    pub max_subscribers_per_key: usize,
}

/// How often a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolLimit {
    /// Calls a minute; 0 is no bound.
    pub rate_per_minute: u32,
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn tools_are_named_as_they_are_and_a_typo_is_refused() {
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
