//! The log: to standard error, for people or for programs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

mod json;

use json::JsonLines;

/// Starts logging; what the settings' filter does not understand is told and replaced by `info`.
pub fn start(log: &Log) {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|error| {
        eprintln!("log.filter: {error}; `info` is used");
        EnvFilter::new("info")
    });
    // rmcp logs whole messages; what is to be known of upstream servers, this service says itself.
    let filter = match (log.filter.contains("rmcp"), "rmcp=off".parse()) {
        (false, Ok(quiet)) => filter.add_directive(quiet),
        _ => filter,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start, as in tests, keeps the first one's settings.
    let _ = match log.format {
        LogFormat::Text => builder.with_ansi(has_colours()).with_target(false).try_init(),
        LogFormat::Json => builder.with_ansi(false).event_format(JsonLines::default()).try_init(),
    };
}

/// Colours are for eyes: not for a file or a pipe, nor for whoever has said so (<https://no-color.org>).
fn has_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
