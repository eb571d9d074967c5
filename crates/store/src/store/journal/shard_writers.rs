//! The writers of a node: one for each shard to which the node writes.
//!
//! A node writes new calls to shards of its own. While commits are fast, it uses only the first one, so that all
//! waiting changes share a commit. While the database is slow to flush, it uses several, whose commits overlap. A call
//! that was adopted from another node stays in its shard and gets a writer when it is first changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::pace::CommitPace;
use super::writer::{Writer, WriterParts};
use super::{Entry, JournalError, QUEUE};
use crate::store::Db;
use crate::store::server::pools::JOURNAL_CONNECTIONS;
use toolpost_core::domain::Shard;

/// Maximum number of shards to which a node writes new calls.
const MAX_SHARD_WRITERS: usize = JOURNAL_CONNECTIONS as usize;
/// The queue of one writer.
#[derive(Debug, Clone)]
struct ShardWriter {
    shard: Shard,
    queue: mpsc::Sender<Entry>,
    pace: Arc<CommitPace>,
    is_own: Arc<AtomicBool>,
}

impl ShardWriter {
    fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }
}

/// The writers of a node.
pub(super) struct ShardWriters {
    parts: WriterParts,
    tasks: TaskTracker,
    /// The writers of new calls. There is always one.
    own: ArcSwap<Vec<ShardWriter>>,
    /// The writers of adopted calls.
    adopted: Mutex<HashMap<Shard, ShardWriter>>,
}

impl std::fmt::Debug for ShardWriters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardWriters").field("own", &self.own).finish_non_exhaustive()
    }
}

impl ShardWriters {
    /// Starts the writer of the shard for new calls.
    pub fn start(parts: WriterParts, shard: Shard, tasks: TaskTracker) -> Self {
        let first = start(&parts, &tasks, shard, true);
        Self { parts, tasks, own: ArcSwap::from_pointee(vec![first]), adopted: Mutex::default() }
    }

    /// Writes new calls to this shard as well. A writer of adopted calls of the shard also writes the new ones, so that the
    /// changes of a call keep their order.
    pub fn add(&self, shard: Shard) {
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.owns(shard) {
            let added = adopted.remove(&shard).unwrap_or_else(|| start(&self.parts, &self.tasks, shard, true));
            added.is_own.store(true, Ordering::Relaxed);
            self.parts.flush_gate.overlap();
            self.own.store(Arc::new(self.own.load().iter().cloned().chain([added]).collect()));
        }
    }

    /// Returns `true` if new calls are written to this shard.
    pub fn owns(&self, shard: Shard) -> bool {
        self.own.load().iter().any(|writer| writer.shard == shard)
    }

    /// Returns the shard for a new call. If commits are slow, it is one whose writer is idle or has the least to do.
    pub fn shard_of_new_call(&self) -> Shard {
        let own = self.own.load();
        if own.len() > 1 && own.iter().any(|writer| writer.pace.is_slow()) {
            let load = |writer: &&ShardWriter| (writer.pace.is_committing(), writer.waiting());
            if let Some(writer) = own.iter().min_by_key(load) {
                return writer.shard;
            }
        }
        own.first().map(|writer| writer.shard).unwrap_or_default()
    }

    /// Returns `true` if a further shard for new calls would let commits overlap, given the number of changes that
    /// callers wait for.
    pub fn is_short(&self, awaited: usize, max: usize) -> bool {
        let own = self.own.load();
        matches!(self.parts.db, Db::Postgres(_))
            && own.len() < MAX_SHARD_WRITERS.min(max)
            && awaited > own.len()
            && own.iter().any(|writer| writer.pace.is_slow())
    }

    /// Returns the queue of the writer of this shard.
    ///
    /// # Errors
    /// Returns [`JournalError::Closed`] if the writers have stopped.
    pub fn queue(&self, shard: Shard) -> Result<mpsc::Sender<Entry>, JournalError> {
        let shard = if matches!(self.parts.db, Db::Sqlite(_)) { Shard::default() } else { shard };
        let own = || self.own.load().iter().find(|writer| writer.shard == shard).map(|writer| writer.queue.clone());
        if let Some(queue) = own() {
            return Ok(queue);
        }
        if self.parts.closing.is_cancelled() {
            return Err(JournalError::Closed);
        }
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have become an own shard before the lock.
        if let Some(queue) = own() {
            return Ok(queue);
        }
        let writer = adopted.entry(shard).or_insert_with(|| start(&self.parts, &self.tasks, shard, false));
        Ok(writer.queue.clone())
    }

    /// Returns the number of changes queued for all writers.
    pub fn waiting(&self) -> usize {
        let adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        self.own.load().iter().chain(adopted.values()).map(ShardWriter::waiting).sum()
    }
}

/// Starts the writer of a shard. `is_own` tells whether the shard belongs to this node.
fn start(parts: &WriterParts, tasks: &TaskTracker, shard: Shard, is_own: bool) -> ShardWriter {
    let (queue, entries) = mpsc::channel(QUEUE);
    let (pace, is_own) = (Arc::<CommitPace>::default(), Arc::new(AtomicBool::new(is_own)));
    let writer = Writer::new(parts.clone(), shard, is_own.clone(), pace.clone());
    tasks.spawn(writer.run(entries));
    ShardWriter { shard, queue, pace, is_own }
}
