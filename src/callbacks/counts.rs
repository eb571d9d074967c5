//! What became of tries, since the start of this node.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one node. They only grow.
#[derive(Debug, Default)]
pub struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

impl Counts {
    /// Ends that were taken.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Tries that are made again.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends that nobody took.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(super) fn note_delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_failed(&self, is_last: bool) {
        let count = if is_last { &self.given_up } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
