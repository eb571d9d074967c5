//! How long the commits of one writer take.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Commits are slow if even the fastest of the last [`WINDOW`] took longer than this and [`PER_CHANGE`] together. The
/// fastest tells how long the database flushes. Others also wait for a processor, and more commits in flight would only
/// add to that.
const SLOW: Duration = Duration::from_millis(2);
/// Time that a commit may take for each change, because the database has work to do.
const PER_CHANGE: Duration = Duration::from_micros(40);
/// Time above which the duration of a commit is not counted.
const LONGEST: Duration = Duration::from_millis(16);
/// Number of commits per measurement. The fastest of them counts.
const WINDOW: u64 = 8;
/// The share of the time of a slow commit for which its writer waits for more changes.
const GATHERING: u32 = 8;

/// The duration of the commits of one writer.
#[derive(Debug, Default)]
pub(super) struct CommitPace {
    is_committing: AtomicBool,
    /// Moving average of the whole commit, in microseconds.
    took: AtomicU64,
    /// The time that the changes do not explain, in microseconds: of the fastest commit of the last full window, and of
    /// the fastest since.
    unexplained: AtomicU64,
    fastest: AtomicU64,
    /// Number of commits since the last full window.
    counted: AtomicU64,
}

impl CommitPace {
    /// Returns `true` during a commit.
    pub fn is_committing(&self) -> bool {
        self.is_committing.load(Ordering::Relaxed)
    }

    /// Records the start of a commit.
    pub fn begin(&self) {
        self.is_committing.store(true, Ordering::Relaxed);
    }

    /// Records the end of a commit. A single commit that takes very long, such as one during an outage, does not make
    /// commits slow.
    pub fn end(&self, took: Duration, changes: usize) {
        let explained = PER_CHANGE * u32::try_from(changes).unwrap_or(u32::MAX);
        let micros = |time: Duration| u64::try_from(time.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
        // Only this writer changes the members.
        let last = self.took.load(Ordering::Relaxed);
        self.took.store((last / 8).saturating_mul(7).saturating_add(micros(took) / 8), Ordering::Relaxed);
        self.count(micros(took.saturating_sub(explained)));
        self.is_committing.store(false, Ordering::Relaxed);
    }

    /// Counts the unexplained microseconds of a commit in its window.
    fn count(&self, unexplained: u64) {
        let counted = self.counted.load(Ordering::Relaxed) + 1;
        let fastest = if counted == 1 { unexplained } else { unexplained.min(self.fastest.load(Ordering::Relaxed)) };
        self.fastest.store(fastest, Ordering::Relaxed);
        if counted == WINDOW {
            self.unexplained.store(fastest, Ordering::Relaxed);
        }
        self.counted.store(counted % WINDOW, Ordering::Relaxed);
    }

    /// Returns `true` if commits take longer than their changes explain.
    pub fn is_slow(&self) -> bool {
        u128::from(self.unexplained.load(Ordering::Relaxed)) > SLOW.as_micros()
    }

    /// Returns how long the writer waits for more changes before a commit.
    pub fn gathering(&self) -> Option<Duration> {
        self.is_slow().then(|| Duration::from_micros(self.took.load(Ordering::Relaxed)) / GATHERING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_slow_only_if_their_changes_do_not_explain_it() {
        let pace = CommitPace::default();
        (0..64).for_each(|_| pace.end(Duration::from_millis(8), 400));
        assert_eq!(pace.gathering(), None, "400 changes explain 8 ms");
        (0..64).for_each(|_| pace.end(Duration::from_millis(8), 8));
        assert!(pace.gathering().is_some_and(|wait| wait < Duration::from_millis(8)));
        (0..64).for_each(|_| pace.end(Duration::from_micros(300), 1));
        assert_eq!(pace.gathering(), None);
    }

    #[test]
    fn commits_are_not_slow_while_some_are_fast() {
        let pace = CommitPace::default();
        let waits_for_a_processor = |at: u64| if at.is_multiple_of(4) { 1 } else { 15 };
        (0..64).for_each(|at| pace.end(Duration::from_millis(waits_for_a_processor(at)), 1));
        assert!(!pace.is_slow(), "the database flushes fast");
        (0..16).for_each(|_| pace.end(Duration::from_millis(15), 1));
        assert!(pace.is_slow());
    }
}
