//! Statistics of one commit, and the JSON note in which the commit stores them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::bucket_of;
use toolpost_core::domain::budget::{Amount, BudgetUse};
use toolpost_core::domain::stats::Sample;
use toolpost_core::domain::{Call, Time};

/// The dimensions of the statistics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::store) struct Key {
    /// The owner of the calls.
    #[serde(rename = "o")]
    pub tenant: Arc<str>,
    /// The tool; empty for unknown tools.
    #[serde(rename = "n")]
    pub tool: Arc<str>,
    /// The minute since 1970 in which the calls ended; 0 for the total of all minutes.
    #[serde(rename = "m")]
    pub minute: i64,
    /// Whether the calls were executed.
    #[serde(rename = "x")]
    pub executed: bool,
    /// The failure code; empty for successful calls.
    #[serde(rename = "c")]
    pub code: Arc<str>,
    /// The bucket of the durations.
    #[serde(rename = "b")]
    pub bucket: i32,
}

/// The aggregates of one key. Durations are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Sum {
    /// Number of calls.
    #[serde(rename = "k")]
    pub calls: i64,
    /// Sum of the durations.
    #[serde(rename = "t")]
    pub total_ms: i64,
    /// Shortest duration.
    #[serde(rename = "l")]
    pub min_ms: i64,
    /// Longest duration.
    #[serde(rename = "h")]
    pub max_ms: i64,
    /// Number of attempts after the first.
    #[serde(rename = "r")]
    pub retries: i64,
    /// Time at which the last call ended.
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

/// Aggregates by key, and the settlement of budgets.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::store) struct Tally {
    sums: BTreeMap<Key, Sum>,
    /// What calls have used, by budget and step.
    used: BTreeMap<(Uuid, Time), Amount>,
    /// What calls have taken out of allotments, by budget and allotment.
    reduced: BTreeMap<(Uuid, Uuid), Amount>,
}

/// The note of a commit. Without settled budgets it is only the list of aggregates.
#[derive(Serialize)]
#[serde(untagged)]
enum NoteOut<'a> {
    Sums(Vec<(&'a Key, &'a Sum)>),
    WithBudgets { s: Vec<(&'a Key, &'a Sum)>, u: Vec<((Uuid, i64), Amount)>, r: Vec<(&'a (Uuid, Uuid), &'a Amount)> },
}

/// A note as it is read.
#[derive(Deserialize)]
struct NoteIn {
    s: Vec<(Key, Sum)>,
    u: Vec<((Uuid, i64), Amount)>,
    r: Vec<((Uuid, Uuid), Amount)>,
}

impl Tally {
    /// Counts an ended call in the minute of its end.
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
        self.settle_budgets(call);
    }

    /// Adds what an ended call has used of budgets.
    fn settle_budgets(&mut self, call: &Call) {
        let ended_at = call.ended_at.unwrap_or(call.created_at);
        for hold in &call.holds {
            let Some(BudgetUse { amount, returned }) = hold.used else { continue };
            *self.used.entry((hold.budget, hold.counted_at(ended_at))).or_default() += amount;
            *self.reduced.entry((hold.budget, hold.allotment)).or_default() += hold.amount - returned;
        }
    }

    fn add(&mut self, key: Key, sum: &Sum) {
        match self.sums.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(*sum)),
            Entry::Occupied(mut there) => there.get_mut().add(sum),
        }
    }

    /// Renders the note that is stored with the commit. Returns `None` if no call ended in it.
    pub fn note(&self) -> Option<String> {
        let s: Vec<(&Key, &Sum)> = self.sums.iter().collect();
        let note = match (s.is_empty(), self.used.is_empty()) {
            (true, true) => return None,
            (_, true) => NoteOut::Sums(s),
            _ => NoteOut::WithBudgets {
                s,
                u: self.used().map(|((budget, at), amount)| ((budget, at.0), amount)).collect(),
                r: self.reduced.iter().collect(),
            },
        };
        // Notes consist of strings and numbers, so serialization cannot fail.
        Some(serde_json::to_string(&note).unwrap_or_default())
    }

    /// Adds the note of a commit to its minutes and to the totals.
    ///
    /// # Errors
    /// Returns an error if the note is not valid.
    pub fn add_note(&mut self, note: &str) -> Result<(), serde_json::Error> {
        let NoteIn { s: rows, u: used, r: reduced } = match note.starts_with('{') {
            true => serde_json::from_str(note)?,
            false => NoteIn { s: serde_json::from_str(note)?, u: Vec::new(), r: Vec::new() },
        };
        for ((budget, at), amount) in used {
            *self.used.entry((budget, Time(at))).or_default() += amount;
        }
        for (key, amount) in reduced {
            *self.reduced.entry(key).or_default() += amount;
        }
        for (key, sum) in rows {
            self.add(Key { minute: 0, ..key.clone() }, &sum);
            self.add(key, &sum);
        }
        Ok(())
    }

    /// Returns the aggregates in a stable order.
    pub fn rows(&self) -> impl Iterator<Item = (&Key, &Sum)> {
        self.sums.iter()
    }

    /// Returns what calls have used, by budget and step.
    pub fn used(&self) -> impl Iterator<Item = ((Uuid, Time), Amount)> {
        self.used.iter().map(|(key, amount)| (*key, *amount))
    }

    /// Returns what calls have taken out of allotments, by budget and allotment.
    pub fn reductions(&self) -> impl Iterator<Item = ((Uuid, Uuid), Amount)> {
        self.reduced.iter().map(|(key, amount)| (*key, *amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolpost_core::domain::call::CallRecord;
    use toolpost_core::domain::{Failure, IdGenerator, Outcome, Time};

    const MINUTE: i64 = 60_000_000;

    fn ended(outcome: Outcome, from: i64, until: i64) -> Call {
        let mut call = Call::from(CallRecord::accepted(
            IdGenerator::counted().next(),
            "echo".into(),
            None,
            Arc::default(),
            Time(0),
            "n".into(),
        ));
        call.start(Time(from)).unwrap();
        call.settle(outcome, Time(until)).unwrap();
        call
    }

    #[test]
    fn rejected_call_does_not_count_as_executed() {
        let mut call = Call::from(CallRecord::accepted(
            IdGenerator::counted().next(),
            "echo".into(),
            None,
            Arc::default(),
            Time(0),
            "n".into(),
        ));
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
    fn commit_without_ended_calls_has_no_note() {
        assert_eq!(Tally::default().note(), None);
        assert!(Tally::default().add_note("x").is_err());
    }
}
