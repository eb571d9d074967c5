//! Which commit of a node starts the next flush.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Lets one commit start at once after each flush of the database, while the others wait for more changes.
///
/// A database flushes the commits together that wait at the same time, so the commits of a node end together. Their
/// callers then send their next changes together. If all writers waited for more of them, the database would have
/// nothing to flush meanwhile. A commit that begins during a flush still becomes part of the next one.
#[derive(Debug, Default)]
pub(super) struct FlushGate {
    /// Whether the node has several writers, so that other changes need not wait for the end of this commit.
    overlaps: AtomicBool,
    /// The start of the last commit that passed, until the gate is open again.
    passed: Mutex<Option<Instant>>,
}

impl FlushGate {
    /// Records that the node has several writers.
    pub fn overlap(&self) {
        self.overlaps.store(true, Ordering::Relaxed);
    }

    /// Lets a commit that begins `now` pass. Returns `false` if another commit has passed, or if the node has one
    /// writer only.
    pub fn try_pass(&self, now: Instant) -> bool {
        if !self.overlaps.load(Ordering::Relaxed) {
            return false;
        }
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.is_some() {
            return false;
        }
        *passed = Some(now);
        true
    }

    /// Opens the gate at the end of a commit that began at this time. A commit that began before the last one passed is
    /// part of an earlier flush.
    pub fn end(&self, began: Instant) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.is_some_and(|since| since <= began) {
            *passed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn first_commit_after_a_flush_passes_the_gate() {
        let gate = FlushGate::default();
        let at = |millis| Instant::now() + Duration::from_millis(millis);
        let (first, second, third) = (at(0), at(1_000), at(9_000));
        assert!(!gate.try_pass(first), "a single writer would let all other changes wait");
        gate.overlap();
        assert!(gate.try_pass(first));
        assert!(!gate.try_pass(second));
        gate.end(first);
        assert!(gate.try_pass(third));
        gate.end(second);
        assert!(!gate.try_pass(third), "the second commit is part of the flush before");
        gate.end(third);
        assert!(gate.try_pass(third));
    }
}
