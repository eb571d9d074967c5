//! The threads of the process: runtimes whose threads return to the system what the allocator keeps for them.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Builder, Runtime};

/// The function that returns the free memory of a thread.
static RETURN_MEMORY: OnceLock<fn()> = OnceLock::new();
/// The number of large allocations that were released in this process.
static LARGE_RELEASES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of large allocations after which this thread has last returned memory.
    static RETURNED: Cell<u64> = const { Cell::new(0) };
}

/// Sets how a thread returns the free memory that its allocator keeps. Only the first call counts.
pub fn return_memory_with(return_memory: fn()) {
    RETURN_MEMORY.get_or_init(|| return_memory);
}

/// Notes that much memory was released. Each thread then returns its free memory as soon as it has nothing to do.
pub fn note_large_release() {
    LARGE_RELEASES.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many large allocations were released.
#[must_use]
pub fn large_releases() -> u64 {
    LARGE_RELEASES.load(Ordering::Relaxed)
}

/// Starts a runtime with a thread for each core. Its threads return memory when they end, and when they have nothing to do
/// after a large release.
///
/// # Errors
/// Returns the error of the system if it refuses the threads.
pub fn runtime(name: &str) -> io::Result<Runtime> {
    start(name, return_memory)
}

fn start(name: &str, return_memory: impl Fn() + Clone + Send + Sync + 'static) -> io::Result<Runtime> {
    let return_memory_at_end = return_memory.clone();
    let return_of_large = move || {
        let releases = large_releases();
        if RETURNED.replace(releases) != releases {
            return_memory();
        }
    };
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_name(name).on_thread_stop(return_memory_at_end).on_thread_park(return_of_large).build()
}

fn return_memory() {
    if let Some(return_memory) = RETURN_MEMORY.get() {
        return_memory();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn threads_that_end_return_their_memory() {
        let (sender, ended) = mpsc::channel();
        let threads = start("t", move || sender.send(std::thread::current().id()).unwrap_or_default()).unwrap();
        let thread = threads.block_on(threads.spawn_blocking(|| std::thread::current().id())).unwrap();
        drop(threads);
        assert!(ended.iter().any(|id| id == thread));
    }
}
