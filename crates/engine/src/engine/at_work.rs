//! What an adopted call has cost: how often its node was lost while it worked on the call.
//!
//! A call may stop its node: its arguments, its policies or its tool use too much of it. The next node would adopt the call
//! and stop as well. Therefore a node notes in the row of an adopted call when it begins and when it ends to work on it. Calls
//! that were not adopted pay nothing. The notes that come while one statement runs share the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use toolpost_store::store::Stores;
use toolpost_store::store::at_work::Note;

/// Number of lost nodes after which a call is not adopted again.
pub(super) const MAX_LOSSES: i16 = 2;
/// Number of adopted calls whose policies are evaluated together. More would only wait for a processor, and count as worked on
/// if the node is lost meanwhile.
const TOGETHER: usize = 64;
/// Maximum number of notes that are written together.
const MAX_NOTES: usize = 256;
/// Scheduler turns for which a statement waits for further notes.
const YIELDS: usize = 4;

#[derive(Debug, Default)]
struct Waiting {
    notes: HashMap<Uuid, (i16, oneshot::Sender<()>)>,
    /// Whether a task writes.
    is_writing: bool,
}

#[derive(Debug)]
struct Shared {
    stores: Stores,
    node: Arc<str>,
    tasks: TaskTracker,
    waiting: Mutex<Waiting>,
    together: Semaphore,
    alone: Semaphore,
}

/// The work of this node on adopted calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct AtWork(Arc<Shared>);

impl AtWork {
    /// Creates the record of a node. Its tasks belong to `tasks`.
    pub fn new(stores: Stores, node: Arc<str>, tasks: TaskTracker) -> Self {
        let (together, alone) = (Semaphore::new(TOGETHER), Semaphore::new(1));
        Self(Arc::new(Shared { stores, node, tasks, waiting: Mutex::default(), together, alone }))
    }

    /// Waits for the turn to evaluate the policies for an adopted call. A call that was worked on by a lost node has its turn
    /// alone, so that no other call is taken for a call that stops nodes.
    pub async fn acquire(&self, losses: i16) -> Option<SemaphorePermit<'_>> {
        let permits = if losses > 0 { &self.0.alone } else { &self.0.together };
        permits.acquire().await.ok()
    }

    /// Notes that the work on an adopted call begins. Returns after the commit. If the database fails, the work begins without
    /// a note: a loss that is not counted only postpones the end of a call.
    pub async fn begin(&self, call: Uuid, losses: i16) {
        self.note(call, losses.saturating_add(1)).await;
    }

    /// Notes that the work on an adopted call has ended, and the call has not.
    pub async fn end(&self, call: Uuid, losses: i16) {
        self.note(call, losses).await;
    }

    async fn note(&self, call: Uuid, value: i16) {
        let (written, is_written) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            waiting.notes.insert(call, (value, written));
            if !std::mem::replace(&mut waiting.is_writing, true) {
                // A task of its own, because a call that is interrupted must not take the notes of others with it.
                self.0.tasks.spawn(self.clone().write_all());
            }
        }
        // Without an answer, a later note of the call has replaced this one.
        let _ = is_written.await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until nothing waits.
    async fn write_all(self) {
        loop {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            let (notes, written) = {
                let mut waiting = self.waiting();
                let calls: Vec<Uuid> = waiting.notes.keys().copied().take(MAX_NOTES).collect();
                if calls.is_empty() {
                    waiting.is_writing = false;
                    return;
                }
                let taken = calls.into_iter().filter_map(|call| {
                    let (value, written) = waiting.notes.remove(&call)?;
                    Some(((call, value), written))
                });
                taken.unzip::<Note, oneshot::Sender<()>, Vec<_>, Vec<_>>()
            };
            if let Err(error) = self.0.stores.note_work(&self.0.node, &notes).await {
                tracing::debug!(%error, "cannot note the work on adopted calls");
            }
            for written in written {
                // The call may have been interrupted.
                let _ = written.send(());
            }
        }
    }
}
