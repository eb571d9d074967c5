//! Stats match the stored calls in any mixture of commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolpost::domain::stats::ToolStats;
use toolpost::domain::{Call, Failure, Outcome, Time};
use toolpost::store::calls::CallFilter;
use toolpost::store::journal::Change;

use super::{Log, REJECTED, WHOLE, ended, life, rejected};
use crate::support::{Backend, bounded};

const TOOLS: [&str; 3] = ["one", "two", "three"];

/// Builds the changes of call number `n`: it succeeds, fails, is rejected, names an unknown tool, or runs in several
/// steps.
fn changes(call: Call, n: usize) -> Vec<Change> {
    let failure = Failure::execution("t", "no");
    let single = |call: Call, news| vec![Change::new(Arc::new(call), news)];
    match n % 5 {
        0 => single(ended(&call, Outcome::text("x"), (n * 7 % 500) as i64), WHOLE),
        1 => single(ended(&call, failure.into(), (n * 3 % 90) as i64), WHOLE),
        2 => single(rejected(&call, Failure::validation("t", [("", "x")], serde_json::Value::Null)), REJECTED),
        3 => single(rejected(&call, Failure::not_found(&call.name, &[], None)), REJECTED),
        _ => life(&call).0,
    }
}

/// The counts executed, succeeded and rejected, and the sum, maximum and minimum of durations.
pub(super) type Counts = (u64, u64, u64, u64, u64, u64);

/// Returns the expected stats of these ended calls.
pub(super) fn counted(calls: &[Call]) -> BTreeMap<String, Counts> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for call in calls {
        let error = call.outcome.as_ref().unwrap().error.as_ref();
        let is_unknown = error.is_some_and(|error| error.code.as_str() == "TOOL_NOT_FOUND");
        let sum = all.entry(if is_unknown { String::new() } else { call.name.to_string() }).or_default();
        if call.started_at.is_none() {
            sum.2 += 1;
            continue;
        }
        let duration = call.duration_ms().unwrap();
        *sum = (
            sum.0 + 1,
            sum.1 + u64::from(error.is_none()),
            sum.2,
            sum.3 + duration,
            sum.4.max(duration),
            if sum.0 == 0 { duration } else { sum.5.min(duration) },
        );
    }
    all
}

/// Returns the counts of the stored stats.
pub(super) fn counts_of(stats: &[ToolStats]) -> BTreeMap<String, Counts> {
    let counts = stats.iter().map(|stats| {
        let counts = (
            stats.execution_count,
            stats.success_count,
            stats.rejected_count,
            stats.total_duration_ms,
            stats.max_duration_ms,
            stats.min_duration_ms,
        );
        (stats.tool_name.clone(), counts)
    });
    counts.collect()
}

on_both_databases!(
    async fn counts_equal_the_calls_after_2000_changes_from_16_tasks(backend: Backend) {
        let log = Arc::new(Log::open(backend).await);
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let log = log.clone();
                tokio::spawn(async move {
                    for n in (task..1250).step_by(16) {
                        for change in changes(log.call(TOOLS[n % 3]), n) {
                            bounded("a change", log.journal.write(change)).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let filter = CallFilter { limit: 5000, ..CallFilter::default() };
        let calls = log.store.calls(&filter).await.unwrap().0;
        assert_eq!((calls.len(), log.counts("").await), (1250, (0, 0, 250)));
        assert_eq!(counts_of(&log.store.stats(None).await.unwrap()), counted(&calls));
        for tool in TOOLS {
            let total = log.counts(tool).await;
            let minutes = log.store.stats_since(tool, Time(0), 1).await.unwrap().steps();
            let sums = minutes.iter().fold((0, 0, 0), |sum, minute| {
                (sum.0 + minute.execution_count, sum.1 + minute.success_count, sum.2 + minute.rejected_count)
            });
            assert_eq!(sums, total, "{tool}");
        }
    }
);
