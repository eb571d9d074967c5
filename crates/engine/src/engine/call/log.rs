//! The log of one call: decides when its first commit happens, passes its changes to the journal, and replies to the
//! waiting caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use toolpost_core::domain::{Call, Failure};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::Stores;
use toolpost_store::store::journal::{Change, Journal, JournalError, Transitions};

/// An error returned when a call could not be recorded in time because the database is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// `true` if the call is committed as accepted. It then continues, and its end will be recorded.
    pub accepted: bool,
}

/// The receiver of the end of a call.
pub(in crate::engine) type EndReceiver = oneshot::Receiver<Result<Arc<Call>, RecordError>>;

/// A call that has not ended.
#[derive(Debug)]
pub struct PendingCall {
    /// The id of the call.
    pub id: Uuid,
    /// `true` if the caller waits for the end of this call by default.
    pub is_awaited: bool,
    pub(in crate::engine) end: EndReceiver,
}

impl PendingCall {
    /// Waits until the call has ended and is committed.
    ///
    /// # Errors
    /// Returns a [`RecordError`] if the call could not be recorded in time. It may still be recorded later.
    pub async fn end(self) -> Result<Arc<Call>, RecordError> {
        self.end.await.unwrap_or(Err(RecordError { accepted: false }))
    }
}

/// The latest time of the first commit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Durability {
    /// Before anything runs. A repeated request finds the call.
    First,
    /// Before the tool runs.
    BeforeEffect,
    /// With the end, as the tool is read-only. A call that takes longer is announced before.
    AtEnd,
}

/// Tracks the parts of a call that the journal already has.
pub(in crate::engine) struct CallLog {
    journal: Journal,
    stores: Stores,
    timeout: Duration,
    durability: Durability,
    waiting: Option<oneshot::Sender<Result<Arc<Call>, RecordError>>>,
    accepted: bool,
    started: bool,
    is_late: bool,
    /// `true` if the caller does not wait for approvals.
    parks: bool,
}

/// The parts of a node that logs use.
#[derive(Clone, Copy)]
pub(in crate::engine) struct LogParts<'a> {
    pub journal: &'a Journal,
    pub stores: &'a Stores,
    pub timeout: Duration,
}

impl CallLog {
    /// Creates the log of a new call, and the receiver of its end. `parks` means that the caller does not wait for approvals.
    pub fn new(parts: LogParts<'_>, durability: Durability, parks: bool) -> (Self, EndReceiver) {
        let (waiting, end) = oneshot::channel();
        (Self { parks, ..Self::with(parts, durability, Some(waiting)) }, end)
    }

    /// Creates the log of a stored call that has no waiting caller.
    pub fn resumed(parts: LogParts<'_>, call: &Call) -> Self {
        let started = call.started_at.is_some();
        Self { accepted: true, started, ..Self::with(parts, Durability::First, None) }
    }

    fn with(
        LogParts { journal, stores, timeout }: LogParts<'_>,
        durability: Durability,
        waiting: Option<oneshot::Sender<Result<Arc<Call>, RecordError>>>,
    ) -> Self {
        let (journal, stores) = (journal.clone(), stores.clone());
        let (accepted, started, is_late, parks) = (false, false, false, false);
        Self { journal, stores, timeout, durability, waiting, accepted, started, is_late, parks }
    }

    /// Records that the call is committed before anything runs.
    pub fn accept_first(&mut self) {
        self.durability = Durability::First;
    }

    /// Returns `true` if the call is committed before anything runs.
    pub fn is_accepted_first(&self) -> bool {
        self.durability == Durability::First
    }

    /// Returns `true` if the start of an attempt is committed before the tool runs.
    pub fn records_starts(&self) -> bool {
        self.accepted || self.durability != Durability::AtEnd
    }

    /// Returns `true` if the tool may run although its start was not recorded in time: a repeated request finds the call, or the
    /// tool is read-only.
    pub fn may_start_late(&self) -> bool {
        self.durability != Durability::BeforeEffect
    }

    /// Returns `true` if the caller does not wait for approvals.
    pub fn parks(&self) -> bool {
        self.parks
    }

    /// Returns the transitions since the last change.
    fn take_transitions(&mut self, call: &Call) -> Transitions {
        let started = call.started_at.is_some();
        Transitions {
            accepted: !std::mem::replace(&mut self.accepted, true),
            started: started && !std::mem::replace(&mut self.started, started),
            settled: call.status.is_terminal(),
        }
    }

    /// Returns `true` if the call was passed to the journal.
    pub fn has_announced(&self) -> bool {
        self.accepted
    }

    /// Returns `true` if the start of the tool was published.
    pub fn has_announced_start(&self) -> bool {
        self.started
    }

    /// Builds a change with the current call and its new transitions.
    pub fn change(&mut self, call: &Call) -> Change {
        self.shared_change(Arc::new(call.clone()))
    }

    /// Builds a change as [`CallLog::change`] does, without a copy of the call.
    pub fn shared_change(&mut self, call: Arc<Call>) -> Change {
        let transitions = self.take_transitions(&call);
        Change::new(call, transitions)
    }

    /// Passes a change to the journal. The commit need not be awaited: later changes of the call follow in the same
    /// queue.
    pub async fn enqueue(&self, change: Change) {
        let _ = self.journal.enqueue(change).await;
    }

    /// Writes a change of a call whose caller still waits, and returns after the commit. If the commit takes too long,
    /// the caller receives a [`RecordError`], but the change is not withdrawn.
    ///
    /// # Errors
    /// Returns a [`JournalError`] if the change is rejected permanently.
    pub async fn write(&mut self, change: Change) -> Result<Recorded, JournalError> {
        let was_accepted = self.accepted && !change.brings_acceptance();
        let journal = self.journal.clone();
        let awaiting = journal.register_waiters(1);
        let mut writing = std::pin::pin!(journal.write(change));
        match tokio::time::timeout(self.timeout, &mut writing).await {
            Ok(written) => written.map(|()| Recorded::InTime),
            Err(_) => {
                drop(awaiting);
                self.is_late = true;
                self.reply(Err(RecordError { accepted: was_accepted }));
                writing.await.map(|()| Recorded::Late)
            }
        }
    }

    /// Writes the end of a call and replies to the caller. `image` is stored instead of `call`, if given. Returns the
    /// call, or `None` if it did not end here.
    pub async fn settle(&mut self, mut call: Arc<Call>, image: Option<Box<Call>>) -> Option<Arc<Call>> {
        let was_accepted = self.accepted;
        let transitions = self.take_transitions(&call);
        fault::pass(Point::BeforeSettle);
        let mut change = Change::new(call.clone(), transitions);
        if self.waiting.as_ref().is_some_and(|waiting| !waiting.is_closed()) {
            change = change.awaited();
        }
        if let Some(image) = image {
            change = change.with_stored_image(Arc::new(*image));
        }
        let mut written = self.write(change).await;
        if written == Err(JournalError::Refused) {
            // The database rejects some value in the call. The call must end anyway.
            (call, written) = Box::pin(self.settle_without_result(&call, transitions)).await;
        }
        match written {
            Ok(_) => {
                fault::pass(Point::AfterSettle);
                self.reply(Ok(call.clone()));
                return Some(call);
            }
            Err(JournalError::Fenced) => Box::pin(self.reply_with_stored(&call)).await,
            Err(error) => {
                tracing::error!(id = %call.id, %error, "the end of a call was not recorded");
                self.reply(Err(RecordError { accepted: was_accepted }));
            }
        }
        None
    }

    async fn settle_without_result(
        &mut self,
        call: &Call,
        transitions: Transitions,
    ) -> (Arc<Call>, Result<Recorded, JournalError>) {
        let mut other = call.clone();
        other.give_up(Failure::execution(&call.name, "its result could not be recorded"));
        let call = Arc::new(other);
        let written = self.write(Change::new(call.clone(), transitions)).await;
        (call, written)
    }

    /// Replies to the caller with a call whose end is committed already.
    pub fn end_is_written(&mut self, call: Call) {
        self.reply(Ok(Arc::new(call)));
    }

    /// Replies to the caller with the stored call, because another node has adopted it or it has already ended.
    pub async fn reply_with_stored(&mut self, call: &Call) {
        tracing::warn!(id = %call.id, "the call was taken over by another node; this run's result is discarded");
        match self.stores.for_tenant(&call.tenant).call(call.id).await {
            Ok(Some(stored)) if stored.status.is_terminal() => self.reply(Ok(Arc::new(stored))),
            _ => self.leave(),
        }
    }

    /// Releases the caller: the call continues on another node or after the next start.
    pub fn leave(&mut self) {
        self.reply(Err(RecordError { accepted: true }));
    }

    /// Answers a caller that does not wait for approvals with the call as it is.
    pub fn park(&mut self, call: &Call) {
        if self.parks && self.waiting.is_some() {
            self.reply(Ok(Arc::new(call.clone())));
        }
    }

    /// Releases the caller because it has waited too long. The call continues.
    pub fn give_up_caller(&mut self) {
        self.is_late = true;
        self.reply(Err(RecordError { accepted: self.accepted }));
    }

    /// Returns whether all commits were in time for the caller.
    pub fn end(&self) -> Recorded {
        if self.is_late { Recorded::Late } else { Recorded::InTime }
    }

    /// Returns the journal, for changes whose commit is not awaited.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn reply(&mut self, end: Result<Arc<Call>, RecordError>) {
        if let Some(waiting) = self.waiting.take() {
            // The caller may have disconnected.
            let _ = waiting.send(end);
        }
    }
}

/// The time of a commit, relative to the caller's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Recorded {
    /// The caller still waited.
    InTime,
    /// The caller had already received a [`RecordError`].
    Late,
}
