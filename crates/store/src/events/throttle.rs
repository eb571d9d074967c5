//! Throttling of subscribers, so that their number does not slow calls down.
//!
//! Subscribers of all calls share a byte budget. A subscriber that cannot follow at its share falls behind, is
//! disconnected and resumes. Reading from the store costs far more than forwarding from memory, so only one page is
//! read at a time, with pauses if there are many subscribers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Bytes per second for all subscribers of all calls together.
const BUDGET: u64 = 256 * 1024 * 1024;
/// Minimum pause that justifies a timer.
const MIN_PAUSE: Duration = Duration::from_millis(1);
/// Number of subscribers above which reads from the store are followed by pauses.
const PAUSE_ABOVE: usize = 16;
/// Ratio of a pause to the read before it.
const PAUSE_FACTOR: u32 = 9;

/// A throttle shared by all subscribers of a bus.
#[derive(Debug, Clone)]
pub struct ReadThrottle {
    pages: Arc<Semaphore>,
}

impl Default for ReadThrottle {
    fn default() -> Self {
        Self { pages: Arc::new(Semaphore::new(1)) }
    }
}

impl ReadThrottle {
    /// Returns when a subscriber that has received this number of bytes may receive more, or `None` for immediately.
    #[must_use]
    pub fn next(bytes: usize, readers: usize) -> Option<Instant> {
        let share = (bytes as u64).saturating_mul(readers as u64).saturating_mul(1_000_000) / BUDGET;
        let rest = Duration::from_micros(share);
        (rest >= MIN_PAUSE).then(|| Instant::now() + rest)
    }

    /// Runs a read from the store, one at a time because a page may be large. With many subscribers a pause follows.
    pub async fn page<T>(&self, readers: usize, work: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.pages.acquire().await;
        let began = Instant::now();
        let done = work.await;
        if readers <= PAUSE_ABOVE {
            return done;
        }
        tokio::time::sleep(began.elapsed() * PAUSE_FACTOR).await;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_readers_share_the_budget() {
        assert_eq!(ReadThrottle::next(1_000, 10), None);
        let share = ReadThrottle::next(256 * 1024, 1024).unwrap() - Instant::now();
        assert_eq!(share, Duration::from_secs(1));
    }
}
