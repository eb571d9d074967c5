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
pub(super) struct FlushTurn {
    /// Whether the node has several writers, so that other changes need not wait for the end of this commit.
    overlaps: AtomicBool,
    /// The start of the last commit that took the turn, until the turn is free again.
    taken: Mutex<Option<Instant>>,
}

impl FlushTurn {
    /// Records that the node has several writers.
    pub fn overlap(&self) {
        self.overlaps.store(true, Ordering::Relaxed);
    }

    /// Takes the turn for a commit that begins `now`. Returns `false` if another commit has it, or if the node has one
    /// writer only.
    pub fn take(&self, now: Instant) -> bool {
        if !self.overlaps.load(Ordering::Relaxed) {
            return false;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_some() {
            return false;
        }
        *taken = Some(now);
        true
    }

    /// Frees the turn at the end of a commit that began at this time. A commit that began before the turn was taken is
    /// part of an earlier flush.
    pub fn end(&self, began: Instant) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_some_and(|since| since <= began) {
            *taken = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_commit_after_a_flush_has_the_turn() {
        let turn = FlushTurn::default();
        let at = |millis| Instant::now() + Duration::from_millis(millis);
        let (first, second, third) = (at(0), at(1_000), at(9_000));
        assert!(!turn.take(first), "a single writer would let all other changes wait");
        turn.overlap();
        assert!(turn.take(first));
        assert!(!turn.take(second));
        turn.end(first);
        assert!(turn.take(third));
        turn.end(second);
        assert!(!turn.take(third), "the second commit is part of the flush before");
        turn.end(third);
        assert!(turn.take(third));
    }
}
