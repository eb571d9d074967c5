//! How often hooks were asked, and what became of it: since the start of this node.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one node. They only grow.
#[derive(Debug, Default)]
pub struct Counts {
    asked: AtomicU64,
    failed: AtomicU64,
    blocked: AtomicU64,
    dropped: AtomicU64,
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
