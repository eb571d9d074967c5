//! Who is taken while the database is behind.
//!
//! A call that is taken waits for the database behind all that were taken before. If more come than can be recorded, those
//! who wait become ever more, and all of them are answered late. So beyond a bound calls are refused at once. It is low, as
//! one commit records many calls, and more than fill a commit only wait longer. A rush goes beyond that, and is soon
//! over; so more may wait for a moment. It has lasted too long when in all that time not once fewer waited than the bound; then
//! the bound holds until for as long nobody was refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Decides whether calls are taken.
#[derive(Debug)]
pub struct AdmissionControl {
    max_backlog: usize,
    burst: usize,
    /// How long a rush may last, in microseconds.
    lasts: u64,
    /// From here on time is counted, in microseconds.
    made_at: Instant,
    /// Whether fewer waited than the bound when it was last looked at.
    is_below: AtomicBool,
    /// When that was seen to be over.
    begun_at: AtomicU64,
    /// When somebody was refused last; 0 is never.
    refused_at: AtomicU64,
}

impl AdmissionControl {
    /// So many may wait to be recorded, 0 for any number; in a rush, which lasts so long, as many as `burst`.
    #[must_use]
    pub fn new(most: usize, burst: usize, lasts: Duration) -> Self {
        let most = if most == 0 { usize::MAX } else { most };
        Self {
            max_backlog: most,
            burst: burst.max(most),
            lasts: u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX),
            made_at: Instant::now(),
            is_below: AtomicBool::new(true),
            begun_at: AtomicU64::new(0),
            refused_at: AtomicU64::new(0),
        }
    }

    /// Whether a request is taken while so many calls wait.
    pub(super) fn admits(&self, waiting: usize) -> bool {
        if waiting < self.max_backlog {
            // Mostly it is so, and was so before: then no clock is looked at and nothing written.
            if !self.is_below.load(Ordering::Relaxed) {
                self.is_below.store(true, Ordering::Relaxed);
            }
            return true;
        }
        // Never 0, which is never.
        let now = u64::try_from(self.made_at.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        if self.is_below.swap(false, Ordering::Relaxed) {
            self.begun_at.store(now, Ordering::Relaxed);
        }
        let refused_at = self.refused_at.load(Ordering::Relaxed);
        let is_over = now.saturating_sub(self.begun_at.load(Ordering::Relaxed)) >= self.lasts;
        let was_refused = refused_at > 0 && now.saturating_sub(refused_at) < self.lasts;
        let is_taken = waiting < self.burst && !is_over && !was_refused;
        if !is_taken {
            self.refused_at.store(now, Ordering::Relaxed);
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(100);

    async fn after(moments: f64) {
        tokio::time::advance(MOMENT.mul_f64(moments)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_burst_the_bound_holds_at_every_moment() {
        let rush = AdmissionControl::new(4, 0, MOMENT);
        assert!(rush.admits(0) && rush.admits(3) && !rush.admits(4) && !rush.admits(5000) && rush.admits(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rush_is_taken_as_far_as_it_may_go() {
        let rush = AdmissionControl::new(4, 10, MOMENT);
        assert!((0..10).all(|waiting| rush.admits(waiting)) && !rush.admits(10));
        assert!(!rush.admits(9) && rush.admits(3), "somebody was refused a moment ago");
        after(1.0).await;
        assert!(rush.admits(3) && rush.admits(9), "that was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_no_rush_and_the_bound_holds_while_anybody_is_refused() {
        let rush = AdmissionControl::new(4, 10, MOMENT);
        assert!(rush.admits(0) && rush.admits(4));
        after(0.9).await;
        assert!(rush.admits(9));
        after(0.1).await;
        assert!(!rush.admits(9), "all this time there were too many");
        // Fewer are there again and again, and more come all the time.
        for _ in 0..20 {
            after(0.5).await;
            assert!(rush.admits(3) && !rush.admits(4));
        }
        after(1.0).await;
        assert!(rush.admits(3) && rush.admits(4));
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_are_recorded_again_and_again_are_no_overload() {
        let rush = AdmissionControl::new(4, 10, MOMENT);
        for _ in 0..100 {
            assert!((0..10).all(|waiting| rush.admits(waiting)));
            after(0.5).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_a_rush_is_new() {
        let rush = AdmissionControl::new(4, 10, MOMENT);
        after(1000.0).await;
        assert!((0..10).all(|waiting| rush.admits(waiting)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_bound_all_are_taken() {
        let rush = AdmissionControl::new(0, 0, MOMENT);
        assert!(rush.admits(0) && rush.admits(1_000_000));
    }
}
