//! The catalog of all metrics, from which `docs/reference/metrics.md` is generated. Other metrics are not exported.

use std::fmt::Write;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A count that only grows, from the start of the service.
    Counter,
    /// A current value.
    Gauge,
    /// Samples in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// The description of a metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricDescription {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The labels of its series.
    pub labels: &'static [&'static str],
    /// The meaning.
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

/// Buckets for tools, from lookups to tools that run for minutes.
const OF_CALLS: Kind =
    Kind::Histogram(&[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]);
const OF_REQUESTS: Kind =
    Kind::Histogram(&[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
const OF_COMMITS: Kind =
    Kind::Histogram(&[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0]);
const OF_CHANGES: Kind = Kind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]);

use Kind::{Counter, Gauge};

/// All metrics.
pub const CATALOG: &[MetricDescription] = &[
    metric(
        "toolpost_calls_total",
        Counter,
        &["tool", "outcome"],
        "Calls that ended on this node: SUCCESS, CACHED (answered from the cache), or the error code",
    ),
    metric(
        "toolpost_call_duration_seconds",
        OF_CALLS,
        &["tool"],
        "Duration of executed calls, including all attempts and backoffs",
    ),
    metric("toolpost_call_retries_total", Counter, &["tool"], "Attempts after the first, of ended calls"),
    metric("toolpost_cache_hits_total", Counter, &["tool"], "Calls answered from the cache"),
    metric(
        "toolpost_calls_running",
        Gauge,
        &[],
        "Running attempts, including attempts that wait for an external result",
    ),
    metric("toolpost_queue_length", Gauge, &[], "Calls waiting for a slot"),
    metric("toolpost_queue_wait_seconds", OF_CALLS, &[], "Time that queued calls waited, from acceptance"),
    metric("toolpost_queue_accepted", Gauge, &[], "Detached calls, queued and running"),
    metric("toolpost_queue_accepted_limit", Gauge, &[], "Maximum number of detached calls; more are rejected with 503"),
    metric("toolpost_in_flight_memory_bytes", Gauge, &[], "Memory of requests in flight"),
    metric(
        "toolpost_in_flight_memory_limit_bytes",
        Gauge,
        &[],
        "Maximum memory of requests in flight; more requests are rejected with 503",
    ),
    metric("toolpost_backlog_calls", Gauge, &[], "Calls waiting to be recorded by the database"),
    metric("toolpost_journal_commits_total", Counter, &[], "Commits of the journal"),
    metric("toolpost_journal_changes_total", Counter, &[], "Changes of calls in commits"),
    metric("toolpost_journal_commit_changes", OF_CHANGES, &[], "Changes in a commit"),
    metric(
        "toolpost_journal_commit_duration_seconds",
        OF_COMMITS,
        &[],
        "Duration of commits until confirmed, including retries",
    ),
    metric(
        "toolpost_journal_changes_waiting",
        Gauge,
        &[],
        "Changes waiting for the next commit (the lag of the journal)",
    ),
    metric("toolpost_database_up", Gauge, &[], "1 if the database is reachable and the last commit succeeded, else 0"),
    metric(
        "toolpost_sse_subscribers",
        Gauge,
        &["stream"],
        "Open event streams: of calls (`calls`), or of all events and of sessions (`all`)",
    ),
    metric(
        "toolpost_sse_cut_off_total",
        Counter,
        &[],
        "Event streams that were disconnected because the subscriber was too slow",
    ),
    metric("toolpost_tools", Gauge, &[], "Tools of the tenant `default`, including the tools of all tenants"),
    metric("toolpost_tools_paused", Gauge, &[], "Tools that are paused after consecutive timeouts"),
    metric("toolpost_tool_pauses_total", Counter, &[], "Pauses of tools after timeouts on this node"),
    metric(
        "toolpost_signals_sent_total",
        Counter,
        &["kind"],
        "Signals to other nodes: tools, keys, pauses, inbox (messages to calls), session, commits, presence, or everything",
    ),
    metric("toolpost_signals_received_total", Counter, &["kind"], "Signals of other nodes"),
    metric(
        "toolpost_signal_reconnects_total",
        Counter,
        &[],
        "New connections for the signals of other nodes, after a connection was lost",
    ),
    metric(
        "toolpost_hook_calls_total",
        Counter,
        &["event", "outcome"],
        "Hook calls: ok, blocked, failed, timeout, unreadable, or dropped (too many waiting)",
    ),
    metric(
        "toolpost_callbacks_total",
        Counter,
        &["outcome"],
        "Delivery attempts of callbacks: delivered, failed (will be retried), given_up",
    ),
    metric(
        "toolpost_budget_used",
        Gauge,
        &["tenant", "budget", "unit"],
        "Use of a budget within its window, in calls or in cost; 0 after its deletion. At most 1,000 budgets have gauges",
    ),
    metric(
        "toolpost_budget_reserved",
        Gauge,
        &["tenant", "budget", "unit"],
        "What running calls have reserved of a budget, and what other nodes hold for their next calls",
    ),
    metric("toolpost_budget_limit", Gauge, &["tenant", "budget", "unit"], "Maximum of a budget"),
    metric(
        "toolpost_worker_queue_waiting",
        Gauge,
        &["tenant", "queue"],
        "Calls of a queue that no worker has; the same on all nodes. At most 1,000 queues have gauges",
    ),
    metric("toolpost_worker_queue_running", Gauge, &["tenant", "queue"], "Calls of a queue that workers have"),
    metric(
        "toolpost_worker_queue_oldest_seconds",
        Gauge,
        &["tenant", "queue"],
        "Age of the oldest waiting call of a queue; 0 if none waits",
    ),
    metric(
        "toolpost_workers",
        Gauge,
        &["tenant", "queue"],
        "Workers of a queue that have sent a request within 90 s, or wait for a call",
    ),
    metric(
        "toolpost_upstream_state",
        Gauge,
        &["upstream", "state"],
        "State of an upstream MCP server: 1 for the current state (starting, ready, backoff, stopped, failed), 0 for \
            the others, and 0 for all after its deletion",
    ),
    metric(
        "toolpost_upstream_tools",
        Gauge,
        &["upstream", "state"],
        "Tools of an upstream MCP server: available, quarantined (a pinned tool changed), left_out (unusable)",
    ),
    metric(
        "toolpost_upstream_calls_total",
        Counter,
        &["upstream", "outcome"],
        "Calls of tools of an upstream MCP server: ok, error (reported by the tool), failed (no valid response), \
            unavailable (not sent), given_up (timed out or cancelled)",
    ),
    metric("toolpost_upstream_restarts_total", Counter, &["upstream"], "Restarts of an upstream MCP server"),
    metric(
        "toolpost_upstream_errors_total",
        Counter,
        &["upstream"],
        "Failed starts, lost connections and failed tool lists of an upstream MCP server",
    ),
    metric(
        "toolpost_http_requests_total",
        Counter,
        &["method", "route", "status"],
        "HTTP requests; the status is 499 if the client disconnected before the response",
    ),
    metric(
        "toolpost_http_request_duration_seconds",
        OF_REQUESTS,
        &["method", "route"],
        "Time until the response head, which excludes the duration of event streams",
    ),
    metric("toolpost_build_info", Gauge, &["version"], "Always 1"),
    metric("toolpost_uptime_seconds", Gauge, &[], "Time since the start of the service"),
    metric("process_resident_memory_bytes", Gauge, &[], "Resident memory of the process (Linux)"),
    metric("process_open_fds", Gauge, &[], "Open file descriptors of the process (Linux)"),
    metric("process_max_fds", Gauge, &[], "Maximum number of open file descriptors (Linux)"),
    metric("process_cpu_seconds_total", Counter, &[], "CPU time of the process, in whole seconds (Linux)"),
];

/// Returns `true` if the catalog contains this metric with these labels.
pub(super) fn has(name: &str, labels: &[(&'static str, &str)]) -> bool {
    let same = |one: &&MetricDescription| one.name == name && one.labels.iter().eq(labels.iter().map(|(name, _)| name));
    CATALOG.iter().any(|one| same(&one))
}

/// Renders `docs/reference/metrics.md`.
#[must_use]
pub fn reference() -> String {
    format!("{}\n{}", include_str!("reference.md"), table())
}

fn table() -> String {
    let mut table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
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
    fn names_follow_the_conventions_and_are_unique() {
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
