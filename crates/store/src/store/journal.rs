//! The write path of calls. A writer task for each shard of the node group-commits all changes; a change is
//! acknowledged and published only after its commit.
//!
//! All waiting changes form one transaction. Changes of the same call within it become one row write, so a short call
//! costs one row and a share of a commit. A commit writes rows, event positions and statistics together, and the status
//! of each row guards its write. Every commit has an id: if the result of a commit is unknown, the writer looks it up
//! before it retries, so nothing is counted twice or lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::workers::Offer;
use super::{Db, codec};
use toolpost_core::domain::event::{Event, Reported, Stage};
use toolpost_core::domain::{Call, Clock, IdGenerator, KeyClaim, Shard, Tenant};
use toolpost_core::fault::assert_in_tests;

mod batch;
mod bucket;
mod commit;
mod flush;
mod group;
mod pace;
mod postgres;
mod shard_writers;
mod sqlite;
mod tally;
mod writer;

pub use bucket::{bucket_of, upper_end_ms};
pub(in crate::store) use tally::{Key, Sum, Tally};

use shard_writers::ShardWriters;
use writer::WriterParts;

/// Maximum number of changes queued for one writer. Further senders wait, within the deadlines of their callers.
const QUEUE: usize = 4096;

/// One change of a call: the new state of the call, and what the change adds.
#[derive(Debug)]
pub struct Change {
    /// The call as it is stored.
    call: Arc<Call>,
    /// The call as it is published, where that differs from `call`.
    live_image: Option<Arc<Call>>,
    record: String,
    transitions: Transitions,
    reported: Option<Arc<Reported>>,
    /// Idempotency keys that are claimed with the change.
    claims: Vec<KeyClaim>,
    /// The id of the event that is delivered to the call's callback URL.
    callback: Option<Uuid>,
    /// Whether a caller waits for the call.
    is_awaited: bool,
    /// The claim of the worker that gets the call with this commit.
    worker_claim: Option<Offer>,
}

/// Changes that are written together or not at all.
#[derive(Debug)]
enum WriteUnit {
    Single(Change),
    Atomic(Vec<Change>),
}

impl WriteUnit {
    fn changes(&self) -> &[Change] {
        match self {
            Self::Single(change) => std::slice::from_ref(change),
            Self::Atomic(changes) => changes,
        }
    }
}

/// The status changes of a call that one change records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transitions {
    /// The call was accepted. Set in the first change of every call.
    pub accepted: bool,
    /// The tool of the call was started.
    pub started: bool,
    /// The call has ended.
    pub settled: bool,
}

impl Change {
    /// Creates a change of status.
    #[must_use]
    pub fn new(call: Arc<Call>, transitions: Transitions) -> Self {
        let record = codec::encode(&call);
        Self {
            call,
            live_image: None,
            record,
            transitions,
            reported: None,
            claims: Vec::new(),
            callback: None,
            is_awaited: false,
            worker_claim: None,
        }
    }

    /// Claims idempotency keys with the change. If a key is already claimed, nothing is written.
    #[must_use]
    pub fn with_claims(self, claims: Vec<KeyClaim>) -> Self {
        Self { claims, ..self }
    }

    /// Returns the keys with the tenant that claims them.
    fn claims(&self) -> impl Iterator<Item = (&Tenant, &KeyClaim)> {
        self.claims.iter().map(|claim| (&self.call.tenant, claim))
    }

    /// Schedules the delivery of the ended call to its callback URL, as the event with this id.
    #[must_use]
    pub fn with_callback(self, event: Uuid) -> Self {
        Self { callback: Some(event), ..self }
    }

    /// Marks the call as awaited by a caller. Its JSON is then rendered while the database executes the commit.
    #[must_use]
    pub fn awaited(self) -> Self {
        Self { is_awaited: true, ..self }
    }

    /// Stores the claim of a worker with the change. The call was never offered before.
    #[must_use]
    pub fn with_worker_claim(self, claim: Offer) -> Self {
        assert_in_tests!(self.claims.is_empty(), "a commit has either keys or claims of workers");
        Self { worker_claim: Some(claim), ..self }
    }

    /// Returns `true` if the claim of a worker is stored with the change.
    fn has_worker_claim(&self) -> bool {
        self.worker_claim.is_some()
    }

    /// Stores `image` instead of the published call. It is the same call with a different outcome, arguments or
    /// metadata.
    #[must_use]
    pub fn with_stored_image(self, image: Arc<Call>) -> Self {
        let version = |call: &Call| (call.id, call.status, call.last_seq);
        assert_in_tests!(version(&image) == version(&self.call), "{:?} {:?}", version(&image), version(&self.call));
        Self { record: codec::encode(&image), live_image: Some(self.call), call: image, ..self }
    }

    /// Returns the arguments that replace the stored ones.
    fn replaced_arguments(&self) -> Option<&str> {
        let live = self.live_image.as_ref()?;
        (!Arc::ptr_eq(&live.arguments, &self.call.arguments)).then(|| self.call.arguments_text.get())
    }

    /// Returns `true` if this is the first change of the call.
    #[must_use]
    pub fn brings_acceptance(&self) -> bool {
        self.transitions.accepted
    }

    /// Returns the approximate number of bytes that the change writes.
    fn size(&self) -> usize {
        let reported = self.reported.as_ref().map_or(0, |reported| reported.data.len());
        self.record.len() + self.call.arguments_text.get().len() + reported
    }

    /// Returns `true` if the call is new and has not ended.
    fn opens_call(&self) -> bool {
        self.transitions.accepted && !self.transitions.settled
    }

    /// Creates a change that records a report of the running tool.
    #[must_use]
    pub fn reported(call: Arc<Call>, reported: Arc<Reported>) -> Self {
        Self { reported: Some(reported), ..Self::new(call, Transitions::default()) }
    }
}

/// An error returned by [`Journal::write`]: the change was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The call has already ended, or a later attempt owns it.
    #[error("the call has already ended")]
    Fenced,
    /// An idempotency key of the change is already claimed.
    #[error("the idempotency key is already claimed")]
    Claimed,
    /// The database permanently rejects the change; a retry cannot succeed.
    #[error("the database rejected the record of this call")]
    Refused,
    /// The journal is closed because the service is shutting down.
    #[error("the journal is closed")]
    Closed,
}

/// The events of one commit, in order.
#[derive(Debug)]
pub struct CommittedEvents {
    /// Position of the first event.
    pub first_pos: i64,
    /// Position of the last event.
    pub last_pos: i64,
    /// Time from the start of the commit until its success was certain.
    pub took: Duration,
    changes: Vec<CommittedChange>,
}

/// One committed change, from which its events are built.
#[derive(Debug)]
struct CommittedChange {
    call: Arc<Call>,
    transitions: Transitions,
    reported: Option<Arc<Reported>>,
}

impl CommittedEvents {
    /// Returns the number of changes in the commit.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Returns the calls that ended in this commit.
    pub fn ended(&self) -> impl Iterator<Item = &Call> {
        self.changes.iter().filter(|change| change.transitions.settled).map(|change| &*change.call)
    }

    /// Builds the events of this commit in order. They are built lazily because most commits have no subscriber.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.changes.len() * 5);
        let mut pos = self.first_pos;
        for CommittedChange { call, transitions, reported } in &self.changes {
            let stages = [
                (transitions.accepted, Stage::Accepted),
                (transitions.accepted, Stage::Waiting),
                (transitions.started, Stage::Started),
                (reported.is_some(), reported.clone().map_or(Stage::Waiting, Stage::Reported)),
                (transitions.settled, Stage::Settled),
                (transitions.settled, Stage::Result),
            ];
            let count = stages.iter().map(|(occurred, _)| u32::from(*occurred)).sum::<u32>();
            let occurred = stages.into_iter().filter_map(|(occurred, stage)| occurred.then_some(stage));
            for (seq, stage) in (call.last_seq + 1 - count..).zip(occurred) {
                events.push(Event { pos, seq, call: call.clone(), stage });
                pos += 1;
            }
        }
        events
    }
}

/// Receives each commit, in the order of its shard, after its callers were notified.
pub type Sink = Arc<dyn Fn(&CommittedEvents) + Send + Sync>;

struct Entry {
    unit: WriteUnit,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// A handle to the writer tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    shard_writers: ShardWriters,
    healthy: Arc<AtomicBool>,
    /// Number of changes that callers wait for.
    awaited: AtomicUsize,
    closing: CancellationToken,
}

/// Counts changes as awaited until it is dropped.
#[derive(Debug)]
pub struct AwaitedGuard(Journal, usize);

impl Drop for AwaitedGuard {
    fn drop(&mut self) {
        self.0.0.awaited.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Resolves when the queued change is committed or rejected.
pub type Receipt = oneshot::Receiver<Result<(), JournalError>>;

impl Journal {
    /// Starts the writer of this shard, to which new calls are written. The returned task ends after
    /// [`Journal::close`], once all queued changes are written.
    #[must_use]
    pub fn start(
        db: Db,
        clock: Clock,
        ids: IdGenerator,
        shard: Shard,
        sink: Sink,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (healthy, closing, flush_gate) =
            (Arc::new(AtomicBool::new(true)), CancellationToken::new(), Arc::default());
        let tasks = TaskTracker::new();
        let parts =
            WriterParts { db, clock, ids, sink, healthy: healthy.clone(), closing: closing.clone(), flush_gate };
        let shard_writers = ShardWriters::start(parts, shard, tasks.clone());
        // A closed tracker still takes tasks, and its wait ends when none is left.
        tasks.close();
        let task = tokio::spawn(async move { tasks.wait().await });
        (Self(Arc::new(Shared { shard_writers, healthy, awaited: AtomicUsize::new(0), closing })), task)
    }

    /// Returns `true` if this node writes new calls to the shard.
    #[must_use]
    pub fn owns(&self, shard: Shard) -> bool {
        self.0.shard_writers.owns(shard)
    }

    /// Writes new calls to this shard as well.
    pub fn add_shard(&self, shard: Shard) {
        self.0.shard_writers.add(shard);
    }

    /// Returns the shard for the calls of a new request. Their ids must name it.
    #[must_use]
    pub fn shard_of_new_calls(&self) -> Shard {
        self.0.shard_writers.shard_of_new_call()
    }

    /// Returns `true` if commits are slow and would overlap with a further shard, and this node has fewer than `max`.
    #[must_use]
    pub fn is_short_of_shards(&self, max: usize) -> bool {
        self.0.shard_writers.is_short(self.awaited(), max)
    }

    /// Stops accepting changes. Queued changes are still written.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Queues a change, waiting for capacity. The receipt resolves once the change is committed.
    ///
    /// # Errors
    /// Returns [`JournalError::Closed`] if the writer has stopped.
    pub async fn enqueue(&self, change: Change) -> Result<Receipt, JournalError> {
        self.send(WriteUnit::Single(change)).await
    }

    /// Writes several changes together or not at all. Returns after the commit.
    ///
    /// # Errors
    /// Returns an error if one of the changes is rejected; then none is written.
    pub async fn write_atomic(&self, changes: Vec<Change>) -> Result<(), JournalError> {
        self.send(WriteUnit::Atomic(changes)).await?.await.map_err(|_| JournalError::Closed)?
    }

    async fn send(&self, unit: WriteUnit) -> Result<Receipt, JournalError> {
        let (done, receipt) = oneshot::channel();
        let shard = unit.changes().first().map(|change| Shard::of_call(change.call.id)).unwrap_or_default();
        let queue = self.0.shard_writers.queue(shard)?;
        queue.send(Entry { unit, done }).await.map_err(|_| JournalError::Closed)?;
        Ok(receipt)
    }

    /// Writes a change and returns after its commit. Waits while the database is unavailable.
    ///
    /// # Errors
    /// Returns an error if the change is rejected or the journal is closed.
    pub async fn write(&self, change: Change) -> Result<(), JournalError> {
        self.enqueue(change).await?.await.map_err(|_| JournalError::Closed)?
    }

    /// Counts `changes` as awaited until the guard is dropped.
    #[must_use]
    pub fn register_waiters(&self, changes: usize) -> AwaitedGuard {
        self.0.awaited.fetch_add(changes, Ordering::Relaxed);
        AwaitedGuard(self.clone(), changes)
    }

    /// Returns the number of changes that callers wait for: the backlog of the database. A caller counts until it
    /// resumes after its notification.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.0.awaited.load(Ordering::Relaxed)
    }

    /// Returns the number of changes queued for the writers.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.shard_writers.waiting()
    }

    /// Returns `true` if the database answered the last commit.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.healthy.load(Ordering::Relaxed)
    }
}
