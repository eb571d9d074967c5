//! The memory of what is derived from definitions: compiled tools and rendered lists. The least recently used ones are
//! dropped above a limit.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, Weak};

/// An owner of derived data that can be dropped, because it can be derived again.
pub(super) trait Evict: Send + Sync {
    /// Returns `true` if the data was used since the last call of this function.
    fn was_used(&self) -> bool;

    /// Drops the data.
    fn evict(&self);
}

/// All derived data of a registry. It holds owners weakly, so a removed tool takes its data with it.
#[derive(Debug)]
pub(super) struct CompiledMemory {
    /// Maximum size of the data in bytes; 0 means no limit.
    limit: usize,
    held: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    bytes: usize,
    /// The owners in the order of their next check.
    owners: VecDeque<(Weak<dyn Evict>, usize)>,
}

impl std::fmt::Debug for MemoryState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MemoryState").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl CompiledMemory {
    /// Creates a memory for this number of bytes; 0 means no limit.
    pub fn new(limit: usize) -> Self {
        Self { limit, held: Mutex::default() }
    }

    /// Counts the data of an owner, and drops data that was not used lately if all data exceeds the limit.
    pub fn add(&self, owner: Weak<dyn Evict>, bytes: usize) {
        if self.limit == 0 {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes += bytes;
        held.owners.push_back((owner, bytes));
        // Every owner is passed once if it was used, so two rounds find enough.
        let mut checks = held.owners.len() * 2;
        while held.bytes > self.limit && checks > 0 {
            checks -= 1;
            let Some((owner, bytes)) = held.owners.pop_front() else { return };
            match owner.upgrade() {
                Some(data) if data.was_used() => held.owners.push_back((owner, bytes)),
                data => {
                    data.inspect(|data| data.evict());
                    held.bytes -= bytes;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[derive(Default)]
    struct Data {
        used: AtomicBool,
        evicted: AtomicBool,
    }

    impl Evict for Data {
        fn was_used(&self) -> bool {
            self.used.swap(false, Relaxed)
        }

        fn evict(&self) {
            self.evicted.store(true, Relaxed);
        }
    }

    fn add(memory: &CompiledMemory, bytes: usize) -> Arc<Data> {
        let data = Arc::<Data>::default();
        let owner: Arc<dyn Evict> = data.clone();
        memory.add(Arc::downgrade(&owner), bytes);
        data
    }

    #[test]
    fn unused_data_is_dropped_first() {
        let memory = CompiledMemory::new(100);
        let (first, second) = (add(&memory, 50), add(&memory, 50));
        first.used.store(true, Relaxed);
        let third = add(&memory, 50);
        let evicted = [&first, &second, &third].map(|data| data.evicted.load(Relaxed));
        assert_eq!(evicted, [false, true, false]);
    }

    #[test]
    fn data_of_a_removed_owner_does_not_count() {
        let memory = CompiledMemory::new(100);
        drop(add(&memory, 80));
        let (second, third) = (add(&memory, 50), add(&memory, 50));
        assert!(!second.evicted.load(Relaxed) && !third.evicted.load(Relaxed));
    }

    #[test]
    fn data_above_the_limit_is_dropped_even_if_it_is_used() {
        let memory = CompiledMemory::new(100);
        let all: Vec<Arc<Data>> = (0..10).map(|_| add(&memory, 60)).collect();
        all.iter().for_each(|data| data.used.store(true, Relaxed));
        let _last = add(&memory, 60);
        assert!(memory.held.lock().unwrap().bytes <= 100);
        assert!(!add(&CompiledMemory::new(0), usize::MAX).evicted.load(Relaxed));
    }
}
