//! Upstream MCP servers: what becomes of calls that are made of them, how often they were started again or failed, and how
//! they stand. A server's name is its label, for so many servers; those behind them share one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::Counter;

use super::{Metrics, Registry};

/// Servers that have a label of their own at most, since the start of the service; more have come and gone over the API.
pub const MOST_UPSTREAMS: usize = 200;
/// What those are called that came behind the bound.
pub const OTHER_UPSTREAM: &str = "other";

/// What became of one try to call a tool of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamOutcome {
    /// It answered with a result.
    Ok,
    /// It answered that the tool failed.
    Error,
    /// It was lost, or answered nothing that could be used.
    Failed,
    /// It was not asked: it is not there, or the tool rests.
    Unavailable,
    /// Nobody waited any more: a clock fired, or the call was cancelled.
    GivenUp,
}

impl UpstreamOutcome {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Error, Self::Failed, Self::Unavailable, Self::GivenUp];

    /// As metrics name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::GivenUp => "given_up",
        }
    }
}

/// The counts of one server. One that is declared again under the same name goes on with them.
#[derive(Debug)]
pub struct UpstreamCounts {
    calls: [Counter; UpstreamOutcome::ALL.len()],
    restarts: Counter,
    errors: Counter,
}

impl UpstreamCounts {
    /// It was started again.
    pub fn restarted(&self) {
        self.restarts.increment(1);
    }

    /// Something went wrong with the server itself.
    pub fn erred(&self) {
        self.errors.increment(1);
    }

    /// A call begins. What is dropped without an end was given up.
    #[must_use]
    pub fn call(&self) -> UpstreamCall<'_> {
        UpstreamCall { counts: self, outcome: UpstreamOutcome::GivenUp }
    }
}

/// A call under way. Dropped, it is counted.
#[derive(Debug)]
pub struct UpstreamCall<'c> {
    counts: &'c UpstreamCounts,
    outcome: UpstreamOutcome,
}

impl UpstreamCall<'_> {
    /// It has ended so.
    pub fn ended(mut self, outcome: UpstreamOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for UpstreamCall<'_> {
    fn drop(&mut self) {
        // In the order of `ALL`.
        if let Some(counter) = self.counts.calls.get(self.outcome as usize) {
            counter.increment(1);
        }
    }
}

/// How a server stands.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamStatus<'s> {
    /// Its name.
    pub name: &'s str,
    /// One of the states that there are.
    pub state: &'static str,
    /// Its tools that can be called.
    pub available: usize,
    /// Those that rest until their change is accepted.
    pub quarantined: usize,
    /// What it offers and cannot be had.
    pub left_out: usize,
}

/// The names that are labels.
#[derive(Debug, Default)]
pub(super) struct LabelSet(Mutex<BTreeSet<Arc<str>>>);

impl LabelSet {
    fn label(&self, name: &str) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(name) {
            return label.clone();
        }
        let label: Arc<str> = if known.len() < MOST_UPSTREAMS { name.into() } else { OTHER_UPSTREAM.into() };
        known.insert(label.clone());
        label
    }

    fn labels(&self) -> Vec<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Metrics {
    /// What a server of this name counts with.
    #[must_use]
    pub fn upstream(&self, name: &str) -> UpstreamCounts {
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

    /// Sets how all servers stand now, of these states. Of one that is gone everything is 0.
    pub fn set_upstreams<'s>(&self, states: &[&'static str], standings: impl Iterator<Item = UpstreamStatus<'s>>) {
        let mut states_of: BTreeMap<(Arc<str>, &str), usize> = BTreeMap::new();
        let mut tools_of: BTreeMap<(Arc<str>, &str), usize> = BTreeMap::new();
        for standing in standings {
            let label = self.0.upstreams.label(standing.name);
            *states_of.entry((label.clone(), standing.state)).or_default() += 1;
            let tools = [
                ("available", standing.available),
                ("quarantined", standing.quarantined),
                ("left_out", standing.left_out),
            ];
            for (state, tools) in tools {
                *tools_of.entry((label.clone(), state)).or_default() += tools;
            }
        }
        for label in self.0.upstreams.labels() {
            let set = |name, found: &BTreeMap<(Arc<str>, &str), usize>, state: &'static str| {
                let value = found.get(&(label.clone(), state)).copied().unwrap_or_default();
                self.set(name, &[("upstream", &*label), ("state", state)], value as f64);
            };
            states.iter().for_each(|state| set("toolpost_upstream_state", &states_of, state));
            TOOL_STATES.iter().for_each(|state| set("toolpost_upstream_tools", &tools_of, state));
        }
    }
}

/// What can be of a server's tools.
const TOOL_STATES: [&str; 3] = ["available", "quarantined", "left_out"];

#[cfg(test)]
mod tests {
    use super::*;

    fn standing<'s>(name: &'s str, state: &'static str) -> UpstreamStatus<'s> {
        UpstreamStatus { name, state, available: 2, quarantined: 1, left_out: 0 }
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.render().lines().any(|other| other == line)
    }

    #[test]
    fn each_outcome_has_the_place_of_its_number() {
        for (number, outcome) in UpstreamOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number);
        }
    }

    #[test]
    fn a_call_without_an_end_was_given_up() {
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
    fn a_server_is_in_one_state_and_in_none_when_it_is_gone() {
        let metrics = Metrics::default();
        metrics.set_upstreams(&["ready", "failed"], [standing("s", "ready")].into_iter());
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
    fn servers_that_come_and_go_make_no_series_without_end() {
        let metrics = Metrics::default();
        let names: Vec<String> = (0..MOST_UPSTREAMS + 20).map(|number| format!("s{number}")).collect();
        metrics.set_upstreams(&["ready"], names.iter().map(|name| standing(name, "ready")));
        drop(metrics.upstream("one more").call());
        let text = metrics.render();
        let states = text.lines().filter(|line| line.starts_with("toolpost_upstream_state{")).count();
        assert_eq!(states, MOST_UPSTREAMS + 1);
        assert!(has(&metrics, "toolpost_upstream_state{upstream=\"other\",state=\"ready\"} 20"));
        assert!(has(&metrics, "toolpost_upstream_calls_total{upstream=\"other\",outcome=\"given_up\"} 1"));
    }
}
