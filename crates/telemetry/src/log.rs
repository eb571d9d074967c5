//! The log on standard error, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use toolpost_core::domain::Clock;

mod json;

use json::JsonLines;

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging. An invalid filter is reported and replaced by `info`.
pub fn start(format: LogFormat, filter: &str) {
    let has_rmcp = filter.contains("rmcp");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|error| {
        eprintln!("invalid log.filter: {error}; using `info`");
        EnvFilter::new("info")
    });
    // rmcp logs whole messages. The service logs what operators need to know about upstream servers.
    let filter = match (has_rmcp, "rmcp=off".parse()) {
        (false, Ok(quiet)) => filter.add_directive(quiet),
        _ => filter,
    };
    // An error of the log would be printed on standard error as well, and panic there if its reader has ended.
    let builder =
        tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in the same process, as in tests, keeps the first settings.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(has_colors()).with_target(false).try_init(),
        LogFormat::Json => builder.with_ansi(false).event_format(JsonLines(Clock::system())).try_init(),
    };
}

/// Returns `true` if standard error is a terminal and `NO_COLOR` is not set (<https://no-color.org>).
fn has_colors() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
