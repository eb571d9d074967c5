//! How long the commits of one writer take.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Commits are slow if they take longer than this and [`PER_CHANGE`] together.
const SLOW: Duration = Duration::from_millis(2);
/// Time that a commit may take for each change, because the database has work to do.
const PER_CHANGE: Duration = Duration::from_micros(40);
/// Time above which the duration of a commit is not counted.
const LONGEST: Duration = Duration::from_millis(16);
/// The share of the time of a slow commit for which its writer waits for more changes.
const GATHERING: u32 = 8;

/// The duration of the commits of one writer.
#[derive(Debug, Default)]
pub(super) struct CommitPace {
    is_committing: AtomicBool,
    /// Moving averages, in microseconds: of the whole commit, and of what its changes do not explain.
    took: AtomicU64,
    unexplained: AtomicU64,
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
        let average = |average: &AtomicU64, value: Duration| {
            let value = u64::try_from(value.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
            let last = average.load(Ordering::Relaxed);
            // Only this writer changes it.
            average.store((last / 8).saturating_mul(7).saturating_add(value / 8), Ordering::Relaxed);
        };
        average(&self.took, took);
        average(&self.unexplained, took.saturating_sub(explained));
        self.is_committing.store(false, Ordering::Relaxed);
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
}
