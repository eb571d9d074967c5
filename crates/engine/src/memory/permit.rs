//! A request's share of the memory budget. Memory that a large request frees stays with the allocator for a moment, so its
//! share is released a little later.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::threads;

/// Minimum size of a share that is released later, in KiB.
const LARGE_KIB: usize = 1024;
/// Minimum size of a share that is released only after the threads have returned memory, in KiB. Smaller ones must not wait for
/// threads that always have something to do.
const HUGE_KIB: usize = 8 * 1024;
/// Time for idle threads to return memory, and the interval of checks whether all have.
const DELAY: Duration = Duration::from_millis(50);
/// Maximum number of checks: one second. A thread that is busy for longer returns memory too late for its share.
const CHECKS: u32 = 20;

/// A request's share of a memory budget, in KiB; released when dropped.
#[derive(Debug)]
pub struct MemoryPermit(Option<OwnedSemaphorePermit>);

impl From<OwnedSemaphorePermit> for MemoryPermit {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self(Some(permit))
    }
}

impl MemoryPermit {
    /// Returns the size of the share.
    #[must_use]
    pub fn kib(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Adds another share of the same budget.
    pub fn merge(&mut self, mut other: Self) {
        match (&mut self.0, other.0.take()) {
            (Some(own), Some(other)) => own.merge(other),
            (own, other) => *own = own.take().or(other),
        }
    }

    /// Reduces the share to at most `kib`.
    pub fn shrink(&mut self, kib: usize) {
        let surplus = self.kib().saturating_sub(kib);
        drop(Self(self.0.as_mut().and_then(|permit| permit.split(surplus))));
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        let Some(permit) = self.0.take().filter(|permit| permit.num_permits() >= LARGE_KIB) else { return };
        let release = threads::note_large_release();
        if let Ok(runtime) = Handle::try_current() {
            // The task owns the permit, and releases it at its end.
            runtime.spawn(async move {
                wait_until(|| permit.num_permits() < HUGE_KIB || threads::have_returned(release)).await;
            });
        }
    }
}

/// Waits until the threads have returned memory, but not forever.
async fn wait_until(have_returned: impl Fn() -> bool) {
    for _ in 0..CHECKS {
        tokio::time::sleep(DELAY).await;
        if have_returned() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_large_share_is_released_after_the_threads_could_return_its_memory() {
        let budget = Arc::new(Semaphore::new(4096));
        let take = |kib| MemoryPermit::from(budget.clone().try_acquire_many_owned(kib).unwrap());
        drop(take(10));
        assert_eq!(budget.available_permits(), 4096);
        let mut large = take(2048);
        large.merge(take(1));
        drop(large);
        assert_eq!(budget.available_permits(), 4096 - 2049);
        tokio::time::sleep(DELAY * 2).await;
        assert_eq!(budget.available_permits(), 4096);
    }

    #[tokio::test(start_paused = true)]
    async fn a_huge_share_waits_for_the_threads_but_not_forever() {
        for (returned_at, waits) in [(1, 1), (3, 3), (u32::MAX, CHECKS)] {
            let (since, checks) = (Instant::now(), Cell::new(0));
            wait_until(|| checks.replace(checks.get() + 1) + 1 >= returned_at).await;
            assert_eq!((since.elapsed(), checks.get()), (DELAY * waits, waits));
        }
    }
}
