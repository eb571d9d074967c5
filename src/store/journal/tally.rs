//! What a commit adds to the stats, and the form in which it is noted beside the commit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bucket_of;
use crate::domain::Call;
use crate::domain::stats::Sample;

/// What is counted apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::store) struct Key {
    /// The owner.
    #[serde(rename = "o")]
    pub tenant: Arc<str>,
    /// The tool, or nothing for unknown ones.
    #[serde(rename = "n")]
    pub tool: Arc<str>,
    /// The minute since 1970 in which the calls ended; 0 is all of them.
    #[serde(rename = "m")]
    pub minute: i64,
    /// Whether they ran.
    #[serde(rename = "x")]
    pub executed: bool,
    /// The failure's code.
    #[serde(rename = "c")]
    pub code: Arc<str>,
    /// The bucket of their durations.
    #[serde(rename = "b")]
    pub bucket: i32,
}

/// What is added to one row of stats. Durations in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Sum {
    /// How many calls.
    #[serde(rename = "k")]
    pub calls: i64,
    /// Their durations together.
    #[serde(rename = "t")]
    pub total_ms: i64,
    /// The shortest.
    #[serde(rename = "l")]
    pub min_ms: i64,
    /// The longest.
    #[serde(rename = "h")]
    pub max_ms: i64,
    /// Attempts after the first.
    #[serde(rename = "r")]
    pub retries: i64,
    /// When the last one ended.
    #[serde(rename = "a")]
    pub last_at: i64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.total_ms += other.total_ms;
        self.min_ms = self.min_ms.min(other.min_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
        self.retries += other.retries;
        self.last_at = self.last_at.max(other.last_at);
    }
}

/// Sums by what is counted apart.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::store) struct Tally(BTreeMap<Key, Sum>);

impl Tally {
    /// Counts a call that has ended, in its minute.
    pub fn count(&mut self, call: &Call) {
        let Some(sample) = Sample::of(call) else { return };
        let duration = sample.duration_ms as i64;
        let key = Key {
            tenant: call.tenant.shared(),
            tool: if sample.tool.is_empty() { Arc::default() } else { call.name.clone() },
            minute: sample.at.minute(),
            executed: sample.executed,
            code: if sample.code.is_empty() { Arc::default() } else { sample.code.into() },
            bucket: if sample.executed { bucket_of(sample.duration_ms) } else { 0 },
        };
        let sum = Sum {
            calls: 1,
            total_ms: duration,
            min_ms: duration,
            max_ms: duration,
            retries: i64::from(sample.retries),
            last_at: sample.at.0,
        };
        self.add(key, &sum);
    }

    fn add(&mut self, key: Key, sum: &Sum) {
        match self.0.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(*sum)),
            Entry::Occupied(mut there) => there.get_mut().add(sum),
        }
    }

    /// As it is noted beside a commit; `None` if nothing ended in it.
    pub fn note(&self) -> Option<String> {
        let rows: Vec<(&Key, &Sum)> = self.0.iter().collect();
        // Keys and sums are strings and numbers: there is nothing in them that JSON cannot say.
        (!rows.is_empty()).then(|| serde_json::to_string(&rows).unwrap_or_default())
    }

    /// Adds what a commit noted, to its minutes and to the totals.
    ///
    /// # Errors
    /// If it is no such note.
    pub fn add_note(&mut self, note: &str) -> Result<(), serde_json::Error> {
        let rows: Vec<(Key, Sum)> = serde_json::from_str(note)?;
        for (key, sum) in rows {
            self.add(Key { minute: 0, ..key.clone() }, &sum);
            self.add(key, &sum);
        }
        Ok(())
    }

    /// The rows, in a stable order.
    pub fn rows(&self) -> impl Iterator<Item = (&Key, &Sum)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Failure, IdGenerator, Outcome, Time};

    const MINUTE: i64 = 60_000_000;

    fn ended(outcome: Outcome, from: i64, until: i64) -> Call {
        let mut call =
            Call::accepted(IdGenerator::counted().next(), "echo".into(), None, Arc::default(), Time(0), "n".into());
        call.start(Time(from)).unwrap();
        call.settle(outcome, Time(until)).unwrap();
        call
    }

    #[test]
    fn a_rejected_call_is_no_execution_and_an_unknown_tool_has_no_name() {
        let mut call =
            Call::accepted(IdGenerator::counted().next(), "echo".into(), None, Arc::default(), Time(0), "n".into());
        call.settle(Failure::not_found("echo", &[], None).into(), Time(MINUTE)).unwrap();
        let mut tally = Tally::default();
        tally.count(&call);
        let (key, sum) = tally.rows().next().unwrap();
        assert_eq!((&*key.tool, key.minute, key.executed, &*key.code), ("", 1, false, "TOOL_NOT_FOUND"));
        assert_eq!((sum.calls, key.bucket), (1, 0));
    }

    #[test]
    fn notes_add_up_to_minutes_and_totals() {
        let mut folded = Tally::default();
        for (from, until) in [(MINUTE, MINUTE + 3_000), (MINUTE, MINUTE + 3_000), (2 * MINUTE, 2 * MINUTE + 3_000)] {
            let mut tally = Tally::default();
            tally.count(&ended(Outcome::text("x"), from, until));
            folded.add_note(&tally.note().unwrap()).unwrap();
        }
        let counted: Vec<_> = folded.rows().map(|(key, sum)| (key.minute, sum.calls, sum.total_ms)).collect();
        assert_eq!(counted, [(0, 3, 9), (1, 2, 6), (2, 1, 3)]);
        let (_, total) = folded.rows().next().unwrap();
        assert_eq!((total.min_ms, total.max_ms, total.last_at), (3, 3, 2 * MINUTE + 3_000));
    }

    #[test]
    fn a_commit_in_which_nothing_ended_notes_nothing() {
        assert_eq!(Tally::default().note(), None);
        assert!(Tally::default().add_note("x").is_err());
    }
}
