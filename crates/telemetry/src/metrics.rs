//! Metrics in the text format of Prometheus. Each service has its own recorder, because tests and programs that use the
//! library run several services in one process.
//!
//! Frequent events are counted through handles that are created once. States, and counts that other modules keep, are
//! read when the metrics are requested (`http/operations`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tokio::time::Instant;

mod budgets;
pub mod catalog;
pub mod process;
mod queues;
mod routes;
mod tools;
mod upstreams;

pub use budgets::BudgetGauges;
pub use queues::QueueGauges;
pub use routes::{InFlightRequest, Route, Routes};
pub use upstreams::UpstreamStatus;

use catalog::{CATALOG, Kind, MetricDescription};
use tools::Tools;

use toolpost_core::fault::assert_in_tests;

/// The interval of [`Metrics::run_upkeep`].
pub const UPKEEP: Duration = Duration::from_secs(5);

const METADATA: Metadata<'static> = Metadata::new("toolpost", Level::INFO, None);

/// The metrics of a service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    started: Instant,
    running: AtomicI64,
    queue_wait: Histogram,
    commits: Counter,
    changes: Counter,
    commit_changes: Histogram,
    commit_duration: Histogram,
    /// The duration of the last commit, in microseconds.
    last_commit: AtomicU64,
    tools: Tools,
    upstreams: upstreams::LabelSet,
    budgets: budgets::BudgetLabels,
    queues: queues::QueueLabels,
}

/// A registry of series.
#[derive(Debug, Clone)]
struct Registry(Arc<PrometheusRecorder>);

impl Registry {
    fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for one in CATALOG {
            if let Kind::Histogram(buckets) = one.kind {
                let whole = builder.set_buckets_for_metric(Matcher::Full(one.name.to_owned()), buckets);
                #[expect(clippy::expect_used, reason = "only empty buckets are rejected, and these are constants")]
                {
                    builder = whole.expect("a histogram has buckets");
                }
            }
        }
        let recorder = builder.build_recorder();
        for MetricDescription { name, kind, help, .. } in CATALOG {
            match kind {
                Kind::Counter => recorder.describe_counter((*name).into(), None, (*help).into()),
                Kind::Gauge => recorder.describe_gauge((*name).into(), None, (*help).into()),
                Kind::Histogram(_) => recorder.describe_histogram((*name).into(), None, (*help).into()),
            }
        }
        Self(Arc::new(recorder))
    }

    fn counter(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        self.0.register_counter(&key(name, labels), &METADATA)
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        self.0.register_gauge(&key(name, labels), &METADATA)
    }

    fn histogram(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Histogram {
        self.0.register_histogram(&key(name, labels), &METADATA)
    }
}

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    assert_in_tests!(catalog::has(name, labels), "{name} {labels:?} is not in the catalog");
    let labels: Vec<Label> = labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
    Key::from_parts(name, labels)
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        registry.gauge("toolpost_build_info", &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        Self(Arc::new(Inner {
            started: Instant::now(),
            running: AtomicI64::new(0),
            queue_wait: registry.histogram("toolpost_queue_wait_seconds", &[]),
            commits: registry.counter("toolpost_journal_commits_total", &[]),
            changes: registry.counter("toolpost_journal_changes_total", &[]),
            commit_changes: registry.histogram("toolpost_journal_commit_changes", &[]),
            commit_duration: registry.histogram("toolpost_journal_commit_duration_seconds", &[]),
            last_commit: AtomicU64::new(0),
            tools: Tools::new(registry.clone()),
            upstreams: upstreams::LabelSet::default(),
            budgets: budgets::BudgetLabels::default(),
            queues: queues::QueueLabels::default(),
            registry,
        }))
    }
}

/// A guard that counts a running attempt until it is dropped.
#[derive(Debug)]
pub struct Running<'m>(&'m AtomicI64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a running attempt.
    #[must_use]
    pub fn running(&self) -> Running<'_> {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Running(&self.0.running)
    }

    /// Returns the time since the start of the service.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Returns the duration of the last commit; zero before the first one.
    #[must_use]
    pub fn last_commit(&self) -> Duration {
        Duration::from_micros(self.0.last_commit.load(Ordering::Relaxed))
    }

    /// Records the time that a call waited in the queue.
    pub fn waited(&self, wait: Duration) {
        self.0.queue_wait.record(wait);
    }

    /// Records a commit and the calls that ended in it.
    pub fn committed<'c>(
        &self,
        changes: usize,
        took: Duration,
        ended: impl Iterator<Item = &'c toolpost_core::domain::Call>,
    ) {
        self.0.commits.increment(1);
        self.0.changes.increment(changes as u64);
        self.0.commit_changes.record(changes as f64);
        self.0.commit_duration.record(took);
        self.0.last_commit.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.tools.count(ended);
    }

    /// Creates counters of HTTP requests for these routes, each with its methods.
    #[must_use]
    pub fn routes<'r>(&self, routes: impl IntoIterator<Item = (&'r str, Vec<String>)>) -> Routes {
        Routes::new(&self.0.registry, routes)
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.0.registry.gauge(name, labels).set(value);
    }

    /// Sets a counter that another module keeps.
    pub fn set_count(&self, name: &'static str, labels: &[(&'static str, &str)], value: u64) {
        self.0.registry.counter(name, labels).absolute(value);
    }

    /// Renders all metrics in the text format 0.0.4 of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.set("toolpost_calls_running", &[], self.0.running.load(Ordering::Relaxed) as f64);
        self.set("toolpost_uptime_seconds", &[], self.0.started.elapsed().as_secs_f64());
        self.0.registry.0.handle().render()
    }

    /// Moves samples into their buckets, which bounds the memory for samples. Call it every [`UPKEEP`].
    pub fn run_upkeep(&self) {
        self.0.registry.0.handle().run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::tools::MAX_TOOLS;
    use super::*;
    use toolpost_core::domain::call::CallRecord;
    use toolpost_core::domain::{Call, Failure, IdGenerator, Outcome, Time};

    fn ended(name: &str, outcome: Outcome, ran: bool) -> Call {
        let mut call = Call::from(CallRecord::accepted(
            IdGenerator::counted().next(),
            name.into(),
            None,
            Arc::default(),
            Time(0),
            "n".into(),
        ));
        if ran {
            call.start(Time(1_000)).unwrap();
        }
        call.settle(outcome, Time(31_000)).unwrap();
        call
    }

    fn lines_of(metrics: &Metrics, family: &str) -> Vec<String> {
        let text = metrics.render();
        let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn calls_are_counted_by_tool_and_outcome() {
        let metrics = Metrics::default();
        let not_found = |name: &str| ended(name, Failure::not_found(name, &[], None).into(), false);
        let calls = [
            ended("echo", Outcome::text("x"), true),
            ended("echo", Failure::execution("echo", "x").into(), true),
            ended("echo", Outcome::text("x"), true),
            not_found("made_up_1"),
            not_found("made_up_2"),
        ];
        metrics.committed(5, Duration::from_millis(3), calls.iter());
        assert_eq!(
            lines_of(&metrics, "toolpost_calls_total{"),
            [
                r#"toolpost_calls_total{tool="echo",outcome="SUCCESS"} 2"#,
                r#"toolpost_calls_total{tool="echo",outcome="TOOL_EXECUTION_ERROR"} 1"#,
                r#"toolpost_calls_total{tool="unknown",outcome="TOOL_NOT_FOUND"} 2"#,
            ]
        );
        let counts = lines_of(&metrics, "toolpost_call_duration_seconds_count{");
        assert_eq!(counts, [r#"toolpost_call_duration_seconds_count{tool="echo"} 3"#]);
        let sum = &lines_of(&metrics, "toolpost_call_duration_seconds_sum{")[0];
        assert!(sum.ends_with(" 0.09"), "{sum}");
        assert_eq!(lines_of(&metrics, "toolpost_journal_changes_total"), ["toolpost_journal_changes_total 5"]);
    }

    #[test]
    fn tools_beyond_the_maximum_share_a_label() {
        let metrics = Metrics::default();
        let calls: Vec<Call> =
            (0..MAX_TOOLS + 20).map(|number| ended(&format!("tool_{number}"), Outcome::text(""), true)).collect();
        metrics.committed(calls.len(), Duration::ZERO, calls.iter());
        metrics.committed(calls.len(), Duration::ZERO, calls.iter());
        let lines = lines_of(&metrics, "toolpost_calls_total{");
        assert_eq!(lines.len(), MAX_TOOLS + 1);
        assert!(lines.contains(&r#"toolpost_calls_total{tool="other",outcome="SUCCESS"} 40"#.to_owned()));
    }

    #[test]
    fn services_of_one_process_count_separately() {
        let (one, other) = (Metrics::default(), Metrics::default());
        one.committed(1, Duration::ZERO, [ended("echo", Outcome::text("x"), true)].iter());
        assert_eq!(lines_of(&other, "toolpost_calls_total{"), [] as [&str; 0]);
        assert_eq!(lines_of(&one, "toolpost_calls_total{").len(), 1);
    }

    #[test]
    fn running_calls_are_counted_until_dropped() {
        let metrics = Metrics::default();
        let (one, other) = (metrics.running(), metrics.running());
        drop(one);
        assert_eq!(lines_of(&metrics, "toolpost_calls_running"), ["toolpost_calls_running 1"]);
        drop(other);
        assert_eq!(lines_of(&metrics, "toolpost_calls_running"), ["toolpost_calls_running 0"]);
    }
}
