//! Counts of calls by tool. Unknown names share one label, and so do tools beyond a maximum, which bounds the number of
//! series.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Histogram};

use super::Registry;
use toolpost_core::domain::stats::CACHED;
use toolpost_core::domain::{Call, Code};

/// Maximum number of tools with their own label.
pub const MAX_TOOLS: usize = 1000;
/// The label of unknown tools.
pub const UNKNOWN_TOOL: &str = "unknown";
/// The index of the series of unknown tools.
const UNKNOWN_INDEX: usize = 0;
/// The label of tools beyond the maximum.
pub const OTHER_TOOL: &str = "other";
/// Number of outcomes: `SUCCESS`, `CACHED` and every code.
const OUTCOMES: usize = 2 + Code::ALL.len();

/// The series of all tools. Only the writer of the journal counts, so the lock is uncontended.
#[derive(Debug)]
pub(super) struct Tools(Mutex<ToolTable>);

#[derive(Debug)]
struct ToolTable {
    registry: Registry,
    series: Vec<Series>,
    /// The indexes of the series by tool.
    by_name: HashMap<Arc<str>, usize>,
    /// The series of the previous call. Consecutive calls often have the same tool.
    last: Option<(Arc<str>, usize)>,
}

/// The series of a label.
#[derive(Debug)]
struct Series {
    label: Box<str>,
    outcomes: [Option<Counter>; OUTCOMES],
    /// The series of executed calls; `None` for unknown tools.
    ran: Option<RunSeries>,
}

#[derive(Debug)]
struct RunSeries {
    duration: Histogram,
    retries: Counter,
    cache_hits: Counter,
}

impl Tools {
    pub fn new(registry: Registry) -> Self {
        let series = vec![Series::new(UNKNOWN_TOOL, None)];
        Self(Mutex::new(ToolTable { registry, series, by_name: HashMap::new(), last: None }))
    }

    /// Counts ended calls.
    pub fn count<'c>(&self, ended: impl Iterator<Item = &'c Call>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for call in ended {
            let Some(outcome) = &call.outcome else { continue };
            let code = outcome.error.as_ref().map(|failure| failure.code);
            let index = known.series_index(call, code);
            known.count(index, call, code);
        }
    }
}

impl ToolTable {
    fn series_index(&mut self, call: &Call, code: Option<Code>) -> usize {
        if code == Some(Code::ToolNotFound) {
            return UNKNOWN_INDEX;
        }
        if let Some((name, index)) = &self.last
            && Arc::ptr_eq(name, &call.name)
        {
            return *index;
        }
        let is_full = self.by_name.len() >= MAX_TOOLS;
        let label = if is_full && !self.by_name.contains_key(&call.name) { OTHER_TOOL } else { &*call.name };
        let index = match self.by_name.get(label) {
            Some(index) => *index,
            None => {
                self.series.push(Series::new(label, Some(RunSeries::of(&self.registry, label))));
                self.by_name.insert(label.into(), self.series.len() - 1);
                self.series.len() - 1
            }
        };
        self.last = Some((call.name.clone(), index));
        index
    }

    fn count(&mut self, index: usize, call: &Call, code: Option<Code>) {
        let Self { registry, series, .. } = self;
        let Some(Series { label, outcomes, ran }) = series.get_mut(index) else { return };
        let (number, outcome) = match code {
            None if call.cached => (1, CACHED),
            None => (0, "SUCCESS"),
            // The order is that of `Code::ALL`.
            Some(code) => (2 + code as usize, code.as_str()),
        };
        if let Some(counter) = outcomes.get_mut(number) {
            let make = || registry.counter("toolpost_calls_total", &[("tool", label), ("outcome", outcome)]);
            counter.get_or_insert_with(make).increment(1);
        }
        let Some(ran) = ran else { return };
        if call.cached {
            ran.cache_hits.increment(1);
        } else if let (Some(_), Some(micros)) = (call.started_at, call.ran_micros()) {
            ran.duration.record(micros as f64 / 1_000_000.0);
        }
        if call.runs() > 1 {
            ran.retries.increment(u64::from(call.runs() - 1));
        }
    }
}

impl Series {
    fn new(label: &str, ran: Option<RunSeries>) -> Self {
        Self { label: label.into(), outcomes: [const { None }; OUTCOMES], ran }
    }
}

impl RunSeries {
    fn of(registry: &Registry, label: &str) -> Self {
        let labels = [("tool", label)];
        Self {
            duration: registry.histogram("toolpost_call_duration_seconds", &labels),
            retries: registry.counter("toolpost_call_retries_total", &labels),
            cache_hits: registry.counter("toolpost_cache_hits_total", &labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, number);
        }
    }
}
