//! The threads of the process: runtimes whose threads return to the system what the allocator keeps for them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::runtime::{Builder, Runtime};

/// The function that returns the free memory of a thread.
static RETURN_MEMORY: OnceLock<fn()> = OnceLock::new();
static RELEASES: Releases = Releases::new();

thread_local! {
    static WORKER: Arc<Worker> = RELEASES.add_worker();
}

/// The large releases of memory, and the threads that return it.
struct Releases {
    count: AtomicU64,
    /// The threads of all runtimes that have once had nothing to do.
    workers: Mutex<Vec<Weak<Worker>>>,
}

/// A thread of a runtime.
#[derive(Default)]
struct Worker {
    /// The number of releases after which the thread has last returned memory.
    returned: AtomicU64,
    /// Whether the thread has nothing to do.
    is_parked: AtomicBool,
}

impl Releases {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), workers: Mutex::new(Vec::new()) }
    }

    fn add_worker(&self) -> Arc<Worker> {
        let worker = Arc::<Worker>::default();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&worker));
        worker
    }

    fn note(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn have_returned(&self, release: u64) -> bool {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().filter_map(Weak::upgrade).all(|worker| {
            worker.is_parked.load(Ordering::Relaxed) || worker.returned.load(Ordering::Relaxed) >= release
        })
    }

    /// Returns the memory of a thread that has nothing to do, unless it has returned it since the last release.
    fn park(&self, worker: &Worker, return_memory: impl Fn()) {
        let releases = self.count.load(Ordering::Relaxed);
        if worker.returned.load(Ordering::Relaxed) != releases {
            return_memory();
            worker.returned.store(releases, Ordering::Relaxed);
        }
        worker.is_parked.store(true, Ordering::Relaxed);
    }
}

/// Sets how a thread returns the free memory that its allocator keeps. Only the first call counts.
pub fn return_memory_with(return_memory: fn()) {
    RETURN_MEMORY.get_or_init(|| return_memory);
}

/// Notes that much memory was released, and returns the number of the release. Each thread then returns its free memory as soon
/// as it has nothing to do.
pub fn note_large_release() -> u64 {
    RELEASES.note()
}

/// Returns `true` if all threads that have something to do have returned their free memory since this release.
#[must_use]
pub fn have_returned(release: u64) -> bool {
    RELEASES.have_returned(release)
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
    let park = move || WORKER.with(|worker| RELEASES.park(worker, &return_memory));
    let unpark = || WORKER.with(|worker| worker.is_parked.store(false, Ordering::Relaxed));
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_name(name).on_thread_stop(return_memory_at_end);
    builder.on_thread_park(park).on_thread_unpark(unpark).build()
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

    #[test]
    fn busy_thread_returns_memory_once_it_is_idle() {
        let releases = Releases::new();
        let worker = releases.add_worker();
        let first = releases.note();
        assert!(!releases.have_returned(first));
        releases.park(&worker, || ());
        assert!(releases.have_returned(first));
        worker.is_parked.store(false, Ordering::Relaxed);
        assert!(releases.have_returned(first), "it has returned memory since");
        let next = releases.note();
        assert!(!releases.have_returned(next));
        drop(worker);
        assert!(releases.have_returned(next), "it has ended");
    }
}
