//! Pauses of tools after repeated timeouts. Each node counts the timeouts of each tool and tenant; a pause is stored and
//! applies to all nodes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use toolpost_core::domain::limits::PauseRule;
use toolpost_core::domain::{Clock, Paused, Tenant};
use toolpost_store::store::pauses::StoredPause;

mod shared;

pub(crate) use shared::SharedPauses;

/// The timeouts of tools on this node, and its copy of the stored pauses.
#[derive(Debug)]
pub struct Pauses {
    rule: PauseRule,
    clock: Clock,
    tools: Mutex<Counted>,
    /// The number of tools with a count. It is usually 0, which saves a lookup.
    counted: AtomicUsize,
    /// The number of pauses by this node since the start.
    paused: AtomicU64,
    /// Notified of each new pause, which is then stored in the background.
    has_unsaved: Notify,
    /// Held while pauses are stored or read, so that a stored pause and a resume do not overtake each other.
    syncing: tokio::sync::Mutex<()>,
}

/// Counts by tenant: the calls of one tenant do not pause a tool for another.
type Counted = HashMap<Tenant, HashMap<Arc<str>, Count>>;

#[derive(Debug, Clone, Copy)]
enum Count {
    Timeouts(u32),
    Paused {
        paused: Paused,
        /// Whether the pause is stored, so that other nodes know it.
        is_saved: bool,
    },
}

impl Pauses {
    /// Creates a table without paused tools.
    pub fn new(rule: PauseRule, clock: Clock) -> Self {
        Self {
            rule,
            clock,
            tools: Mutex::default(),
            counted: AtomicUsize::new(0),
            paused: AtomicU64::new(0),
            has_unsaved: Notify::new(),
            syncing: tokio::sync::Mutex::default(),
        }
    }

    fn tools(&self) -> MutexGuard<'_, Counted> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pause of a tool for a tenant, if it is paused.
    pub fn of(&self, tenant: &Tenant, tool: &str) -> Option<Paused> {
        if self.counted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.of_count(self.tools().get(tenant)?.get(tool))
    }

    fn of_count(&self, count: Option<&Count>) -> Option<Paused> {
        match count {
            Some(Count::Paused { paused, .. }) if self.clock.now() < paused.until => Some(*paused),
            _ => None,
        }
    }

    /// Returns `true` if a tool of this tenant is paused or has counted timeouts.
    pub fn any(&self, tenant: &Tenant) -> bool {
        self.counted.load(Ordering::Relaxed) > 0 && self.tools().contains_key(tenant)
    }

    /// Returns the number of paused tools of all tenants.
    pub fn resting(&self) -> usize {
        if self.counted.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let all = self.tools();
        all.values().flat_map(HashMap::values).filter(|count| self.of_count(Some(count)).is_some()).count()
    }

    /// Returns the number of pauses by this node since the start.
    pub fn paused(&self) -> u64 {
        self.paused.load(Ordering::Relaxed)
    }

    /// Returns the remaining time of a pause, in milliseconds.
    pub fn left_ms(&self, paused: &Paused) -> u64 {
        paused.until.millis_since(self.clock.now())
    }

    /// Counts the end of an attempt.
    pub fn note(&self, tenant: &Tenant, tool: &Arc<str>, timed_out: bool) {
        if self.rule.after_timeouts == 0 || !timed_out && self.counted.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut all = self.tools();
        if !timed_out && !all.contains_key(tenant) {
            return;
        }
        let tools = all.entry(tenant.clone()).or_default();
        if timed_out {
            let now = self.clock.now();
            let count = tools.entry(tool.clone()).or_insert(Count::Timeouts(0));
            let timeouts = match *count {
                Count::Timeouts(before) => before + 1,
                // The attempt began before the pause.
                Count::Paused { paused, .. } if now < paused.until => return,
                Count::Paused { .. } => 1,
            };
            *count = if timeouts < self.rule.after_timeouts {
                Count::Timeouts(timeouts)
            } else {
                let until = now.plus_millis(self.rule.cooldown_ms);
                tracing::warn!(tool = &**tool, timeouts, "the tool is paused");
                self.paused.fetch_add(1, Ordering::Relaxed);
                self.has_unsaved.notify_one();
                Count::Paused { paused: Paused { since: now, until, timeouts }, is_saved: false }
            };
        } else if self.of_count(tools.get(tool)).is_none() {
            tools.remove(tool);
        }
        self.count(&mut all, tenant);
    }

    /// Waits for a pause that must be stored.
    pub async fn unsaved(&self) {
        self.has_unsaved.notified().await;
    }

    /// Returns the pauses that must be stored.
    fn unsaved_pauses(&self) -> Vec<StoredPause> {
        let now = self.clock.now();
        let all = self.tools();
        let tools = all.iter().flat_map(|(tenant, tools)| tools.iter().map(move |(tool, count)| (tenant, tool, count)));
        let unsaved = tools.filter_map(|(tenant, tool, count)| match count {
            Count::Paused { paused, is_saved: false } if now < paused.until => {
                Some(StoredPause { tenant: tenant.clone(), tool: tool.clone(), paused: *paused })
            }
            _ => None,
        });
        unsaved.collect()
    }

    /// Records that a pause is stored.
    fn mark_saved(&self, saved: &StoredPause) {
        if let Some(Count::Paused { paused, is_saved }) =
            self.tools().get_mut(&saved.tenant).and_then(|tools| tools.get_mut(&saved.tool))
        {
            *is_saved |= *paused == saved.paused;
        }
    }

    /// Replaces the stored pauses. A pause that is no longer stored was resumed, on any node, or is over.
    fn apply(&self, stored: Vec<StoredPause>) {
        let mut all = self.tools();
        for tools in all.values_mut() {
            tools.retain(|_, count| !matches!(count, Count::Paused { is_saved: true, .. }));
        }
        for StoredPause { tenant, tool, paused } in stored {
            let tools = all.entry(tenant).or_default();
            // A pause that is not stored yet may last longer.
            let is_longer =
                matches!(tools.get(&tool), Some(Count::Paused { paused: own, .. }) if own.until > paused.until);
            if !is_longer {
                tools.insert(tool, Count::Paused { paused, is_saved: true });
            }
        }
        all.retain(|_, tools| !tools.is_empty());
        self.counted.store(all.values().map(HashMap::len).sum(), Ordering::Relaxed);
    }

    /// Ends the pause of a tool for a tenant on this node and resets its count.
    fn resume(&self, tenant: &Tenant, tool: &str) {
        let mut all = self.tools();
        all.get_mut(tenant).map(|tools| tools.remove(tool));
        self.count(&mut all, tenant);
    }

    fn count(&self, all: &mut Counted, changed: &Tenant) {
        if all.get(changed).is_some_and(HashMap::is_empty) {
            all.remove(changed);
        }
        self.counted.store(all.values().map(HashMap::len).sum(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolpost_core::domain::Time;

    fn pauses() -> (Pauses, Clock, Arc<str>) {
        let clock = Clock::manual(Time(0));
        (Pauses::new(PauseRule { after_timeouts: 3, cooldown_ms: 1000 }, clock.clone()), clock, "a".into())
    }

    #[test]
    fn three_consecutive_timeouts_pause_a_tool_for_the_cooldown() {
        let ((pauses, clock, tool), of) = (pauses(), Tenant::default());
        (0..2).for_each(|_| pauses.note(&of, &tool, true));
        assert_eq!(pauses.of(&of, "a"), None);
        pauses.note(&of, &tool, true);
        let paused = pauses.of(&of, "a").unwrap();
        assert_eq!((paused.timeouts, pauses.left_ms(&paused), pauses.of(&of, "b")), (3, 1000, None));
        assert_eq!((pauses.resting(), pauses.paused()), (1, 1));
        clock.advance_ms(1000);
        assert_eq!((pauses.of(&of, "a"), pauses.resting()), (None, 0));
        (0..2).for_each(|_| pauses.note(&of, &tool, true));
        assert_eq!((pauses.of(&of, "a"), pauses.paused()), (None, 1), "the count starts at zero");
    }

    #[test]
    fn success_or_resume_resets_the_count() {
        let ((pauses, _, tool), of) = (pauses(), Tenant::default());
        (0..2).for_each(|_| pauses.note(&of, &tool, true));
        pauses.note(&of, &tool, false);
        (0..2).for_each(|_| pauses.note(&of, &tool, true));
        assert_eq!(pauses.of(&of, "a"), None);
        pauses.note(&of, &tool, true);
        assert!(pauses.of(&of, "a").is_some());
        assert_eq!(pauses.of(&Tenant::stored("other"), "a"), None, "each tenant has its own count");
        pauses.resume(&of, "a");
        assert_eq!(pauses.of(&of, "a"), None);
    }

    #[test]
    fn stored_pauses_replace_those_of_the_node() {
        let ((pauses, clock, tool), of) = (pauses(), Tenant::default());
        let other = |until| StoredPause {
            tenant: of.clone(),
            tool: "b".into(),
            paused: Paused { since: Time(0), until: Time(until), timeouts: 5 },
        };
        (0..3).for_each(|_| pauses.note(&of, &tool, true));
        (0..2).for_each(|_| pauses.note(&of, &"c".into(), true));
        let unsaved = pauses.unsaved_pauses();
        assert_eq!(unsaved.len(), 1);
        pauses.apply(vec![other(500_000)]);
        assert!(pauses.of(&of, "a").is_some(), "it is not stored yet");
        assert_eq!(pauses.of(&of, "b").unwrap().timeouts, 5);
        pauses.mark_saved(&unsaved[0]);
        assert!(pauses.unsaved_pauses().is_empty());
        pauses.apply(vec![other(700_000)]);
        assert_eq!((pauses.of(&of, "a"), pauses.of(&of, "b").unwrap().until), (None, Time(700_000)));
        pauses.note(&of, &"c".into(), true);
        assert!(pauses.of(&of, "c").is_some(), "counts of timeouts stay");
        clock.advance_ms(700);
        assert_eq!(pauses.of(&of, "b"), None);
        pauses.apply(Vec::new());
        assert_eq!(pauses.resting(), 1);
    }
}
