//! What watching may cost: however many watch, calls come first.
//!
//! Readers of all events share a budget of bytes; one that cannot follow with its share falls behind, is cut off, and
//! resumes. Reading back from the store is far dearer than passing on what is in memory, so it happens
//! one page at a time, and with many readers with rests in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Bytes a second that all readers of everything get together.
const BUDGET: u64 = 256 * 1024 * 1024;
/// Shortest rest that is worth a timer.
const SHORTEST: Duration = Duration::from_millis(1);
/// With more readers than this, reading back takes rests.
const FEW: usize = 16;
/// How much longer than the work a rest is.
const REST: u32 = 9;

/// Shared by all readers of one bus.
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
    /// When a reader that was given so many bytes, one of so many readers, may be given more; `None` for at once.
    #[must_use]
    pub fn next(bytes: usize, readers: usize) -> Option<Instant> {
        let share = (bytes as u64).saturating_mul(readers as u64).saturating_mul(1_000_000) / BUDGET;
        let rest = Duration::from_micros(share);
        (rest >= SHORTEST).then(|| Instant::now() + rest)
    }

    /// Does work that reads back from the store in its turn, as a page may be large. With many readers it takes rests.
    pub async fn page<T>(&self, readers: usize, work: impl Future<Output = T>) -> T {
        // Never closed.
        let _turn = self.pages.acquire().await;
        let began = Instant::now();
        let done = work.await;
        if readers <= FEW {
            return done;
        }
        tokio::time::sleep(began.elapsed() * REST).await;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_readers_are_not_held_back_and_many_share_the_budget() {
        assert_eq!(ReadThrottle::next(1_000, 10), None);
        let share = ReadThrottle::next(256 * 1024, 1024).unwrap() - Instant::now();
        assert_eq!(share, Duration::from_secs(1));
    }
}
