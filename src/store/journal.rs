//! The heart: every change of a call goes through one group-committing writer per node, and is acknowledged and
//! published only once it is on disk.
//!
//! What is waiting becomes one transaction. Changes of one call that meet in it become one row write, so a short call
//! costs a single row and a share of a commit. The rows, the events' positions and what is counted are written together, guarded by
//! the row's status, and every commit has an id: one whose end is unknown is looked up before it is tried again, so
//! that nothing is counted twice or lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Db, codec};
use crate::domain::event::{Event, Reported, Stage};
use crate::domain::{Call, Clock, IdGenerator, KeyClaim, Tenant};

mod batch;
mod bucket;
mod commit;
mod postgres;
mod sql;
mod sqlite;
mod tally;
mod writer;

pub use bucket::{bucket_of, upper_end_ms};
pub(in crate::store) use tally::Tally;

/// Changes that may wait for the writer. More wait at the door, within the callers' deadlines.
const QUEUE: usize = 4096;

/// One change of a call: the call as it now is, and what is new about it.
#[derive(Debug)]
pub struct Change {
    /// As it is stored.
    call: Arc<Call>,
    /// As it is told live, where that differs.
    live_image: Option<Arc<Call>>,
    record: String,
    transitions: Transitions,
    reported: Option<Arc<Reported>>,
    /// Idempotency keys that are taken with it.
    claims: Vec<KeyClaim>,
    /// The event id under which its end will be told to the call's callback URL.
    callback: Option<Uuid>,
    /// Whether somebody waits for the call.
    is_awaited: bool,
}

/// What is written as a whole or not at all.
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

/// Which of the call's own events this change brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transitions {
    /// It was accepted; the first change of every call says so.
    pub accepted: bool,
    /// Its tool has started.
    pub started: bool,
    /// It has ended.
    pub settled: bool,
}

impl Change {
    /// A change of status.
    #[must_use]
    pub fn new(call: Arc<Call>, news: Transitions) -> Self {
        let record = codec::encode(&call);
        Self {
            call,
            live_image: None,
            record,
            transitions: news,
            reported: None,
            claims: Vec::new(),
            callback: None,
            is_awaited: false,
        }
    }

    /// Takes idempotency keys with it; if one is taken already, nothing is written.
    #[must_use]
    pub fn with_claims(self, claims: Vec<KeyClaim>) -> Self {
        Self { claims, ..self }
    }

    /// The keys, each with whose it is.
    fn claims(&self) -> impl Iterator<Item = (&Tenant, &KeyClaim)> {
        self.claims.iter().map(|claim| (&self.call.tenant, claim))
    }

    /// Has the call's end told to its callback URL, under this event id.
    #[must_use]
    pub fn with_callback(self, event: Uuid) -> Self {
        Self { callback: Some(event), ..self }
    }

    /// Says that somebody waits for the call: its JSON is written while the database is busy with the commit.
    #[must_use]
    pub fn awaited(self) -> Self {
        Self { is_awaited: true, ..self }
    }

    /// Keeps another image of the call than the one that is told live: the same call, with another result, other arguments
    /// or other facts.
    #[must_use]
    pub fn with_stored_image(self, image: Arc<Call>) -> Self {
        debug_assert_eq!(
            (image.id, image.status, image.last_seq),
            (self.call.id, self.call.status, self.call.last_seq)
        );
        Self { record: codec::encode(&image), live_image: Some(self.call), call: image, ..self }
    }

    /// The arguments that take the place of those that were stored before.
    fn replaced_arguments(&self) -> Option<&str> {
        let told = self.live_image.as_ref()?;
        (!Arc::ptr_eq(&told.arguments, &self.call.arguments)).then(|| self.call.arguments_text.get())
    }

    /// Whether it is the call's first.
    #[must_use]
    pub fn brings_acceptance(&self) -> bool {
        self.transitions.accepted
    }

    /// About how many bytes it brings to the database.
    fn size(&self) -> usize {
        let reported = self.reported.as_ref().map_or(0, |reported| reported.data.len());
        self.record.len() + self.call.arguments_text.get().len() + reported
    }

    /// Whether the call is new and has not ended.
    fn opens_call(&self) -> bool {
        self.transitions.accepted && !self.transitions.settled
    }

    /// Something that the running tool reported.
    #[must_use]
    pub fn reported(call: Arc<Call>, reported: Arc<Reported>) -> Self {
        Self { reported: Some(reported), ..Self::new(call, Transitions::default()) }
    }
}

/// Why a change was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The call has ended already, or a later attempt owns it.
    #[error("the call has already ended")]
    Fenced,
    /// Its idempotency key is taken.
    #[error("the idempotency key is taken")]
    Claimed,
    /// The database refuses this change whatever is tried.
    #[error("the database refuses the record of this call")]
    Refused,
    /// The service is stopping and takes no more.
    #[error("the journal is closed")]
    Closed,
}

/// What a commit has made known, in order.
#[derive(Debug)]
pub struct Committed {
    /// Position of the first event.
    pub first_pos: i64,
    /// Position of the last event.
    pub last_pos: i64,
    /// How long it took until it was certain.
    pub took: Duration,
    told: Vec<CommittedChange>,
}

/// What one change has made known.
#[derive(Debug)]
struct CommittedChange {
    call: Arc<Call>,
    news: Transitions,
    reported: Option<Arc<Reported>>,
}

impl Committed {
    /// How many changes it has.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.told.len()
    }

    /// The calls that have ended with it.
    pub fn ended(&self) -> impl Iterator<Item = &Call> {
        self.told.iter().filter(|told| told.news.settled).map(|told| &*told.call)
    }

    /// The events, in order. They are made here, for whoever wants them: mostly nobody does.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.told.len() * 5);
        let mut pos = self.first_pos;
        for CommittedChange { call, news, reported } in &self.told {
            let stages = [
                (news.accepted, Stage::Accepted),
                (news.accepted, Stage::Waiting),
                (news.started, Stage::Started),
                (reported.is_some(), reported.clone().map_or(Stage::Waiting, Stage::Reported)),
                (news.settled, Stage::Settled),
                (news.settled, Stage::Result),
            ];
            let count = stages.iter().map(|(told, _)| u32::from(*told)).sum::<u32>();
            let told = stages.into_iter().filter_map(|(told, stage)| told.then_some(stage));
            for (seq, stage) in (call.last_seq + 1 - count..).zip(told) {
                events.push(Event { pos, seq, call: call.clone(), stage });
                pos += 1;
            }
        }
        events
    }
}

/// Receives each commit, in commit order, right after it is acknowledged.
pub type Sink = Arc<dyn Fn(&Committed) + Send + Sync>;

struct Entry {
    unit: WriteUnit,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// The way to the writer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: mpsc::Sender<Entry>,
    healthy: Arc<AtomicBool>,
    /// Changes that somebody waits for.
    awaited: AtomicUsize,
    closing: CancellationToken,
}

/// Changes that somebody waits for, as long as they do.
#[derive(Debug)]
pub struct AwaitedGuard(Journal, usize);

impl Drop for AwaitedGuard {
    fn drop(&mut self) {
        self.0.0.awaited.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// The end of a change that was handed over.
pub type Receipt = oneshot::Receiver<Result<(), JournalError>>;

impl Journal {
    /// Starts the writer; the handle ends after [`Journal::close`], once everything is written.
    #[must_use]
    pub fn start(db: Db, clock: Clock, ids: IdGenerator, sink: Sink) -> (Self, tokio::task::JoinHandle<()>) {
        let (queue, entries) = mpsc::channel(QUEUE);
        let healthy = Arc::new(AtomicBool::new(true));
        let closing = CancellationToken::new();
        let writer = writer::Writer {
            db,
            clock,
            ids,
            sink,
            healthy: healthy.clone(),
            last_known_pos: 0,
            connection: None,
            unpublished: None,
        };
        let task = tokio::spawn(writer.run(entries, closing.clone()));
        (Self(Arc::new(Shared { queue, healthy, awaited: AtomicUsize::new(0), closing })), task)
    }

    /// Takes no more changes; what was taken is written.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Hands a change over, waiting for a place in the queue. The receipt tells when it is on disk.
    ///
    /// # Errors
    /// [`JournalError::Closed`] if the writer is gone.
    pub async fn enqueue(&self, change: Change) -> Result<Receipt, JournalError> {
        self.send(WriteUnit::Single(change)).await
    }

    /// Writes several changes as a whole or not at all, and returns when they are on disk.
    ///
    /// # Errors
    /// If one of them was refused; then none was written.
    pub async fn write_atomic(&self, changes: Vec<Change>) -> Result<(), JournalError> {
        self.send(WriteUnit::Atomic(changes)).await?.await.map_err(|_| JournalError::Closed)?
    }

    async fn send(&self, unit: WriteUnit) -> Result<Receipt, JournalError> {
        let (done, receipt) = oneshot::channel();
        self.0.queue.send(Entry { unit, done }).await.map_err(|_| JournalError::Closed)?;
        Ok(receipt)
    }

    /// Writes a change and returns when it is on disk.
    ///
    /// # Errors
    /// If it was refused; a database that is merely away is waited for.
    pub async fn write(&self, change: Change) -> Result<(), JournalError> {
        self.enqueue(change).await?.await.map_err(|_| JournalError::Closed)?
    }

    /// Says that somebody waits for so many changes, until it is dropped.
    #[must_use]
    pub fn register_waiters(&self, changes: usize) -> AwaitedGuard {
        self.0.awaited.fetch_add(changes, Ordering::Relaxed);
        AwaitedGuard(self.clone(), changes)
    }

    /// How many changes somebody waits for: how far the database is behind. Whoever was told has stopped waiting only when
    /// it goes on.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.0.awaited.load(Ordering::Relaxed)
    }

    /// How many changes wait for the writer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.queue.max_capacity() - self.0.queue.capacity()
    }

    /// Whether the last commit went through.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.healthy.load(Ordering::Relaxed)
    }
}
