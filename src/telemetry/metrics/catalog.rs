//! Every metric that there is: its name, its kind, its labels and what it says. The reference in `docs/metrics.md` is made
//! of it, and nothing else is exported.

#[cfg(feature = "internals")]
use std::fmt::Write;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows, from the start of the service.
    Counter,
    /// A state.
    Gauge,
    /// Samples in buckets, with these upper ends.
    Histogram(&'static [f64]),
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricDescription {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What its series are told apart by.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDescription {
    MetricDescription { name, kind, labels, help }
}

/// Of tools: from those that only look something up to those that take minutes.
const OF_CALLS: Kind =
    Kind::Histogram(&[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]);
const OF_REQUESTS: Kind =
    Kind::Histogram(&[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
const OF_COMMITS: Kind =
    Kind::Histogram(&[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0]);
const OF_CHANGES: Kind = Kind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]);

use Kind::{Counter, Gauge};

/// All of them.
pub const CATALOG: &[MetricDescription] = &[
    metric(
        "toolpost_calls_total",
        Counter,
        &["tool", "outcome"],
        "Calls that ended on this node: SUCCESS, CACHED (a kept result), or the error code",
    ),
    metric(
        "toolpost_call_duration_seconds",
        OF_CALLS,
        &["tool"],
        "How long calls ran that ran, all attempts and rests",
    ),
    metric("toolpost_call_retries_total", Counter, &["tool"], "Attempts after the first, of calls that have ended"),
    metric("toolpost_cache_hits_total", Counter, &["tool"], "Calls that got a kept result"),
    metric(
        "toolpost_calls_running",
        Gauge,
        &[],
        "Attempts that run now, those that wait for a result from outside too",
    ),
    metric("toolpost_queue_length", Gauge, &[], "Calls that wait for their place"),
    metric("toolpost_queue_wait_seconds", OF_CALLS, &[], "How long calls waited that had to queue, from acceptance on"),
    metric("toolpost_queue_accepted", Gauge, &[], "Accepted calls that nobody waits for, running and waiting"),
    metric("toolpost_queue_accepted_limit", Gauge, &[], "Most of them; more are answered 503"),
    metric("toolpost_in_flight_memory_bytes", Gauge, &[], "Memory that requests in flight are counted with"),
    metric("toolpost_in_flight_memory_limit_bytes", Gauge, &[], "Most of it; more is answered 503"),
    metric("toolpost_backlog_calls", Gauge, &[], "Calls that wait for the database to record them"),
    metric("toolpost_journal_commits_total", Counter, &[], "Commits of the journal"),
    metric("toolpost_journal_changes_total", Counter, &[], "Changes of calls in them"),
    metric("toolpost_journal_commit_changes", OF_CHANGES, &[], "Changes that share a commit"),
    metric(
        "toolpost_journal_commit_duration_seconds",
        OF_COMMITS,
        &[],
        "How long commits took until they were certain, all tries included",
    ),
    metric("toolpost_journal_changes_waiting", Gauge, &[], "Changes that wait for the next commit: the journal's lag"),
    metric("toolpost_database_up", Gauge, &[], "1 if the database answers and the last commit went through, else 0"),
    metric(
        "toolpost_sse_subscribers",
        Gauge,
        &["stream"],
        "Open event streams: of named calls (`calls`), or of everything and of sessions (`all`)",
    ),
    metric("toolpost_sse_cut_off_total", Counter, &[], "Event streams that were cut off because their reader was slow"),
    metric(
        "toolpost_tools",
        Gauge,
        &[],
        "Tools that the tenant `default` has, and those of the server for all tenants",
    ),
    metric("toolpost_tools_paused", Gauge, &[], "Tools that rest now after timeouts in a row"),
    metric("toolpost_tool_pauses_total", Counter, &[], "How often a tool was paused"),
    metric(
        "toolpost_hook_calls_total",
        Counter,
        &["event", "outcome"],
        "Hooks that were asked: ok, blocked, failed, timeout, unreadable, or dropped for want of room",
    ),
    metric(
        "toolpost_callbacks_total",
        Counter,
        &["outcome"],
        "Tries to tell the end of a call to its URL: delivered, failed (it is tried again), given_up",
    ),
    metric(
        "toolpost_upstream_state",
        Gauge,
        &["upstream", "state"],
        "How an upstream MCP server stands: 1 for its state (starting, ready, backoff, stopped, failed), 0 for the others, all 0 once it is deleted",
    ),
    metric(
        "toolpost_upstream_tools",
        Gauge,
        &["upstream", "state"],
        "Tools of an upstream MCP server: available, quarantined (a pinned one has changed), left_out (they cannot be had)",
    ),
    metric(
        "toolpost_upstream_calls_total",
        Counter,
        &["upstream", "outcome"],
        "Tries to call a tool of an upstream MCP server: ok, error (the tool's own), failed (no usable answer), unavailable (not asked), given_up (timeout or cancel)",
    ),
    metric(
        "toolpost_upstream_restarts_total",
        Counter,
        &["upstream"],
        "How often an upstream MCP server was started again",
    ),
    metric(
        "toolpost_upstream_errors_total",
        Counter,
        &["upstream"],
        "How often an upstream MCP server could not be started, was lost, or did not list its tools",
    ),
    metric(
        "toolpost_http_requests_total",
        Counter,
        &["method", "route", "status"],
        "Answered requests; 499 is a caller that went away before",
    ),
    metric(
        "toolpost_http_request_duration_seconds",
        OF_REQUESTS,
        &["method", "route"],
        "How long answers took until their head was ready; event streams go on behind it",
    ),
    metric("toolpost_build_info", Gauge, &["version"], "Always 1"),
    metric("toolpost_uptime_seconds", Gauge, &[], "How long the service runs"),
    metric("process_resident_memory_bytes", Gauge, &[], "Memory of the process (Linux)"),
    metric("process_open_fds", Gauge, &[], "Open files and connections of the process (Linux)"),
    metric("process_max_fds", Gauge, &[], "Most of them (Linux)"),
    metric("process_cpu_seconds_total", Counter, &[], "Processor time of the process, whole seconds (Linux)"),
];

/// Whether it has this metric with these labels.
pub(super) fn has(name: &str, labels: &[(&'static str, &str)]) -> bool {
    let same = |one: &&MetricDescription| one.name == name && one.labels.iter().eq(labels.iter().map(|(name, _)| name));
    CATALOG.iter().any(|one| same(&one))
}

/// `docs/metrics.md`.
#[must_use]
#[cfg(feature = "internals")]
pub fn reference() -> String {
    format!("{}\n{}", include_str!("reference.md"), table())
}

#[cfg(feature = "internals")]
fn table() -> String {
    let mut table = "| metric | kind | labels | what it says |\n|---|---|---|---|\n".to_owned();
    for MetricDescription { name, kind, labels, help } in CATALOG {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them_and_none_is_there_twice() {
        let mut names: Vec<&str> = CATALOG.iter().map(|one| one.name).collect();
        for one in CATALOG {
            let is_word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(one.name.chars().all(is_word), "{}", one.name);
            assert_eq!(one.name.ends_with("_total"), one.kind == Kind::Counter, "{}", one.name);
            assert!(!one.help.contains(['\n', '|']), "{}", one.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOG.len());
    }
}
