//! Counts of attempts since the start of this node.

use std::sync::atomic::{AtomicU64, Ordering};

/// Monotonic counts of one node.
#[derive(Debug, Default)]
pub struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

impl Counts {
    /// Returns the number of accepted deliveries.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Returns the number of failed attempts that are retried.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the number of callbacks that were abandoned after their last attempt.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(super) fn count_delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, is_last: bool) {
        let count = if is_last { &self.given_up } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
