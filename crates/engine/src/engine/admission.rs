//! Admission control: rejects new calls while too many calls wait to be recorded by the database.
//!
//! A new call is recorded after all calls that wait already. If calls arrive faster than they can be recorded, the
//! backlog grows and every response is late. Calls beyond a limit are therefore rejected immediately. The limit is low,
//! because one commit records many calls, and a longer backlog only adds waiting time.
//!
//! A burst may exceed the limit for a short time. If the backlog does not fall below the limit within that time, the
//! limit applies until no call has been rejected for the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Decides whether new calls are accepted.
#[derive(Debug)]
pub struct AdmissionControl {
    max_backlog: usize,
    burst: usize,
    /// The maximum duration of a burst, in microseconds.
    max_burst_duration: u64,
    /// The start of the microsecond clock below.
    epoch: Instant,
    /// `true` if the backlog was below the limit at the last check.
    is_below: AtomicBool,
    /// The time at which the backlog reached the limit, in microseconds.
    burst_since: AtomicU64,
    /// The time of the last rejection, in microseconds; 0 means never.
    rejected_at: AtomicU64,
}

impl AdmissionControl {
    /// Creates admission control. At most `max_calls` calls may wait to be recorded, or up to `burst` calls for the duration
    /// `max_burst_duration`. A `max_calls` of 0 disables the limit.
    pub fn new(max_calls: usize, burst: usize, max_burst_duration: Duration) -> Self {
        let max_calls = if max_calls == 0 { usize::MAX } else { max_calls };
        Self {
            max_backlog: max_calls,
            burst: burst.max(max_calls),
            max_burst_duration: u64::try_from(max_burst_duration.as_micros()).unwrap_or(u64::MAX),
            epoch: Instant::now(),
            is_below: AtomicBool::new(true),
            burst_since: AtomicU64::new(0),
            rejected_at: AtomicU64::new(0),
        }
    }

    /// Returns `true` if a request is accepted while `waiting` calls wait to be recorded.
    pub(super) fn admits(&self, waiting: usize) -> bool {
        if waiting < self.max_backlog {
            // In the common case the flag is set already: no clock is read and nothing is written.
            if !self.is_below.load(Ordering::Relaxed) {
                self.is_below.store(true, Ordering::Relaxed);
            }
            return true;
        }
        // At least 1, because 0 means never.
        let now = u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        if self.is_below.swap(false, Ordering::Relaxed) {
            self.burst_since.store(now, Ordering::Relaxed);
        }
        let rejected_at = self.rejected_at.load(Ordering::Relaxed);
        let is_over = now.saturating_sub(self.burst_since.load(Ordering::Relaxed)) >= self.max_burst_duration;
        let was_rejected = rejected_at > 0 && now.saturating_sub(rejected_at) < self.max_burst_duration;
        let is_admitted = waiting < self.burst && !is_over && !was_rejected;
        if !is_admitted {
            self.rejected_at.store(now, Ordering::Relaxed);
        }
        is_admitted
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
    async fn limit_without_a_burst_always_applies() {
        let admission = AdmissionControl::new(4, 0, MOMENT);
        assert!(
            admission.admits(0)
                && admission.admits(3)
                && !admission.admits(4)
                && !admission.admits(5000)
                && admission.admits(3)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn burst_is_admitted_up_to_its_size() {
        let admission = AdmissionControl::new(4, 10, MOMENT);
        assert!((0..10).all(|waiting| admission.admits(waiting)) && !admission.admits(10));
        assert!(!admission.admits(9) && admission.admits(3), "a call was just rejected");
        after(1.0).await;
        assert!(admission.admits(3) && admission.admits(9), "the rejection was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn limit_applies_after_a_long_burst_while_calls_are_rejected() {
        let admission = AdmissionControl::new(4, 10, MOMENT);
        assert!(admission.admits(0) && admission.admits(4));
        after(0.9).await;
        assert!(admission.admits(9));
        after(0.1).await;
        assert!(!admission.admits(9), "the backlog was too large all the time");
        // The backlog falls below the limit again and again, and new calls keep arriving.
        for _ in 0..20 {
            after(0.5).await;
            assert!(admission.admits(3) && !admission.admits(4));
        }
        after(1.0).await;
        assert!(admission.admits(3) && admission.admits(4));
    }

    #[tokio::test(start_paused = true)]
    async fn repeatedly_recorded_backlog_is_no_overload() {
        let admission = AdmissionControl::new(4, 10, MOMENT);
        for _ in 0..100 {
            assert!((0..10).all(|waiting| admission.admits(waiting)));
            after(0.5).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn burst_restarts_after_a_pause() {
        let admission = AdmissionControl::new(4, 10, MOMENT);
        after(1000.0).await;
        assert!((0..10).all(|waiting| admission.admits(waiting)));
    }

    #[tokio::test(start_paused = true)]
    async fn disabled_limit_admits_all_calls() {
        let admission = AdmissionControl::new(0, 0, MOMENT);
        assert!(admission.admits(0) && admission.admits(1_000_000));
    }
}
