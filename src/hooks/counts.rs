//! How often hooks were asked, and what became of it: since the start of this node.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::HookEvent;

/// What became of asking a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutcome {
    /// It had its say.
    Ok,
    /// It blocked the call.
    Blocked,
    /// It failed.
    Failed,
    /// It was too slow.
    Timeout,
    /// What it said is nothing.
    Unreadable,
    /// It was not asked, because too many waited.
    Dropped,
}

impl HookOutcome {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Ok, Self::Blocked, Self::Failed, Self::Timeout, Self::Unreadable, Self::Dropped];

    /// As metrics name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Unreadable => "unreadable",
            Self::Dropped => "dropped",
        }
    }
}

/// Counts of one node. They only grow.
#[derive(Debug, Default)]
pub struct Counts {
    asked: AtomicU64,
    failed: AtomicU64,
    blocked: AtomicU64,
    dropped: AtomicU64,
    /// By event and outcome.
    ended: [[AtomicU64; HookOutcome::ALL.len()]; HookEvent::ALL.len()],
}

impl Counts {
    /// Hooks that were asked.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Of these, those that failed or were too slow.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Calls that a hook blocked.
    #[must_use]
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// After hooks that were not asked, because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How often asking at this event came to this.
    #[must_use]
    pub fn ended(&self, event: HookEvent, outcome: HookOutcome) -> u64 {
        self.ended[event as usize][outcome as usize].load(Ordering::Relaxed)
    }

    pub(super) fn note_ended(&self, event: HookEvent, outcome: HookOutcome) {
        self.ended[event as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_asked(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_blocked(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many there are by now.
    pub(super) fn note_dropped(&self) -> u64 {
        self.dropped.fetch_add(1, Ordering::Relaxed) + 1
    }
}
