//! Metrics of upstream MCP servers: outcomes of calls, restarts, errors and states. The name of a server is a label, up
//! to a maximum number of servers; further servers share one label.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Metrics, Registry};
use toolpost_tool::executor::mcp::counts::{UpstreamCounts, UpstreamMetrics, UpstreamOutcome};

/// Maximum number of servers with their own label since the start of the service, including deleted servers.
pub const MAX_UPSTREAMS: usize = 200;
/// The label of servers beyond the maximum.
pub const OTHER_UPSTREAM: &str = "other";

/// The state of a server.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamStatus<'s> {
    /// The name of the server.
    pub name: &'s str,
    /// The state.
    pub state: &'static str,
    /// Number of callable tools.
    pub available: usize,
    /// Number of quarantined tools.
    pub quarantined: usize,
    /// Number of tools that cannot be used.
    pub left_out: usize,
}

/// The names that are used as labels.
#[derive(Debug, Default)]
pub(super) struct LabelSet(Mutex<BTreeSet<Arc<str>>>);

impl LabelSet {
    fn label(&self, name: &str) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(name) {
            return label.clone();
        }
        let label: Arc<str> = if known.len() < MAX_UPSTREAMS { name.into() } else { OTHER_UPSTREAM.into() };
        known.insert(label.clone());
        label
    }

    fn labels(&self) -> Vec<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl UpstreamMetrics for Metrics {
    fn upstream(&self, name: &str) -> UpstreamCounts {
        let registry: &Registry = &self.0.registry;
        let label = self.0.upstreams.label(name);
        let upstream = ("upstream", &*label);
        let of = |outcome: UpstreamOutcome| {
            registry.counter("toolpost_upstream_calls_total", &[upstream, ("outcome", outcome.as_str())])
        };
        UpstreamCounts {
            calls: UpstreamOutcome::ALL.map(of),
            restarts: registry.counter("toolpost_upstream_restarts_total", &[upstream]),
            errors: registry.counter("toolpost_upstream_errors_total", &[upstream]),
        }
    }
}

impl Metrics {
    /// Sets the gauges of all servers, for these states. All gauges of a deleted server are 0.
    pub fn set_upstreams<'s>(&self, states: &[&'static str], statuses: impl Iterator<Item = UpstreamStatus<'s>>) {
        let labelled = statuses.map(|status| (self.0.upstreams.label(status.name), status));
        let labelled: Vec<(Arc<str>, UpstreamStatus<'s>)> = labelled.collect();
        for label in self.0.upstreams.labels() {
            let own: Vec<&UpstreamStatus<'s>> =
                labelled.iter().filter(|(other, _)| *other == label).map(|(_, status)| status).collect();
            let set = |name, state: &'static str, value: usize| {
                self.set(name, &[("upstream", &*label), ("state", state)], value as f64);
            };
            for state in states {
                let count = own.iter().filter(|status| status.state == *state).count();
                set("toolpost_upstream_state", state, count);
            }
            set("toolpost_upstream_tools", "available", own.iter().map(|status| status.available).sum());
            set("toolpost_upstream_tools", "quarantined", own.iter().map(|status| status.quarantined).sum());
            set("toolpost_upstream_tools", "left_out", own.iter().map(|status| status.left_out).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status<'s>(name: &'s str, state: &'static str) -> UpstreamStatus<'s> {
        UpstreamStatus { name, state, available: 2, quarantined: 1, left_out: 0 }
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.render().lines().any(|other| other == line)
    }

    #[test]
    fn dropped_call_counts_as_abandoned() {
        let metrics = Metrics::default();
        let counts = metrics.upstream("s");
        counts.call().ended(UpstreamOutcome::Ok);
        drop(counts.call());
        for outcome in ["ok", "given_up"] {
            assert!(has(&metrics, &format!("toolpost_upstream_calls_total{{upstream=\"s\",outcome=\"{outcome}\"}} 1")));
        }
        metrics.upstream("s").call().ended(UpstreamOutcome::Ok);
        assert!(has(&metrics, "toolpost_upstream_calls_total{upstream=\"s\",outcome=\"ok\"} 2"));
    }

    #[test]
    fn server_has_one_state_and_none_after_deletion() {
        let metrics = Metrics::default();
        metrics.set_upstreams(&["ready", "failed"], [status("s", "ready")].into_iter());
        for line in [
            "toolpost_upstream_state{upstream=\"s\",state=\"ready\"} 1",
            "toolpost_upstream_state{upstream=\"s\",state=\"failed\"} 0",
            "toolpost_upstream_tools{upstream=\"s\",state=\"quarantined\"} 1",
        ] {
            assert!(has(&metrics, line), "{line}: {}", metrics.render());
        }
        metrics.set_upstreams(&["ready", "failed"], std::iter::empty());
        assert!(has(&metrics, "toolpost_upstream_state{upstream=\"s\",state=\"ready\"} 0"));
        assert!(has(&metrics, "toolpost_upstream_tools{upstream=\"s\",state=\"available\"} 0"));
    }

    #[test]
    fn number_of_server_labels_is_bounded() {
        let metrics = Metrics::default();
        let names: Vec<String> = (0..MAX_UPSTREAMS + 20).map(|number| format!("s{number}")).collect();
        metrics.set_upstreams(&["ready"], names.iter().map(|name| status(name, "ready")));
        drop(metrics.upstream("one more").call());
        let text = metrics.render();
        let states = text.lines().filter(|line| line.starts_with("toolpost_upstream_state{")).count();
        assert_eq!(states, MAX_UPSTREAMS + 1);
        assert!(has(&metrics, "toolpost_upstream_state{upstream=\"other\",state=\"ready\"} 20"));
        assert!(has(&metrics, "toolpost_upstream_calls_total{upstream=\"other\",outcome=\"given_up\"} 1"));
    }
}
