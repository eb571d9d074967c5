//! The log: to standard error, for people or for programs.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Log, LogFormat};

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
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::NONE).with_writer(std::io::stderr);
    // A second start, as in tests, keeps the first one's settings.
    let _ = match log.format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
