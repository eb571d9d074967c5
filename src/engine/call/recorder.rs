//! One call's way into the journal, and the word to whoever waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::domain::event::Reported;
use crate::domain::{Call, Failure};
use crate::fault::{self, Point};
use crate::store::Stores;
use crate::store::journal::{Change, Journal, JournalError, Transitions};

/// The call could not be recorded within the caller's patience; the database is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// Whether it is on disk as accepted: then it goes on, and its end will be recorded.
    pub accepted: bool,
}

/// Where the end of a call arrives.
pub(in crate::engine) type EndReceiver = oneshot::Receiver<Result<Arc<Call>, RecordError>>;

/// One call on its way.
#[derive(Debug)]
pub struct PendingCall {
    /// Its id.
    pub id: Uuid,
    /// Whether its caller waits for its end unless it says otherwise.
    pub is_awaited: bool,
    pub(in crate::engine) end: EndReceiver,
}

impl PendingCall {
    /// The call when it has ended and is on disk.
    ///
    /// # Errors
    /// If it could not be recorded in time; it may still be.
    pub async fn end(self) -> Result<Arc<Call>, RecordError> {
        self.end.await.unwrap_or(Err(RecordError { accepted: false }))
    }
}

/// Knows what of a call is in the journal already.
#[derive(Debug)]
pub(in crate::engine) struct Recorder {
    journal: Journal,
    stores: Stores,
    patience: Duration,
    waiting: Option<oneshot::Sender<Result<Arc<Call>, RecordError>>>,
    accepted: bool,
    started: bool,
    is_late: bool,
}

/// A recorder, and where the end arrives.
pub(in crate::engine) fn channel(journal: Journal, stores: Stores, patience: Duration) -> (Recorder, EndReceiver) {
    let (waiting, end) = oneshot::channel();
    let waiting = Some(waiting);
    (Recorder { journal, stores, patience, waiting, accepted: false, started: false, is_late: false }, end)
}

impl Recorder {
    /// A recorder of a call that is in the journal already, for which nobody waits.
    pub fn resumed(journal: Journal, stores: Stores, patience: Duration, call: &Call) -> Self {
        let started = call.started_at.is_some();
        Self { journal, stores, patience, waiting: None, accepted: true, started, is_late: false }
    }

    /// What is new since the last change.
    fn take_transitions(&mut self, call: &Call) -> Transitions {
        let started = call.started_at.is_some();
        Transitions {
            accepted: !std::mem::replace(&mut self.accepted, true),
            started: started && !std::mem::replace(&mut self.started, started),
            settled: call.status.is_terminal(),
        }
    }

    /// Whether the call is in the journal.
    pub fn has_announced(&self) -> bool {
        self.accepted
    }

    /// Whether watchers were told that the tool has started.
    pub fn has_announced_start(&self) -> bool {
        self.started
    }

    /// The call as it is, to be written.
    pub fn change(&mut self, call: &Call) -> Change {
        let news = self.take_transitions(call);
        Change::new(Arc::new(call.clone()), news)
    }

    /// Something that the running tool reported, to be written.
    pub fn reported(&self, call: &Call, reported: Reported) -> Change {
        Change::reported(Arc::new(call.clone()), Arc::new(reported))
    }

    /// Writes a change of a call that is not yet acknowledged to its caller; returns once it is on disk. Whoever waits
    /// is told after the patience has passed, but the change is not taken back.
    ///
    /// # Errors
    /// If the change is refused for good.
    pub async fn write(&mut self, change: Change) -> Result<Recorded, JournalError> {
        let was_accepted = self.accepted && !change.brings_acceptance();
        let journal = self.journal.clone();
        let awaiting = journal.register_waiters(1);
        let writing = journal.write(change);
        tokio::pin!(writing);
        match tokio::time::timeout(self.patience, &mut writing).await {
            Ok(written) => written.map(|()| Recorded::InTime),
            Err(_) => {
                drop(awaiting);
                self.is_late = true;
                self.reply(Err(RecordError { accepted: was_accepted }));
                writing.await.map(|()| Recorded::Late)
            }
        }
    }

    /// Writes the end of a call and tells whoever waits; `image` is what is stored, where that is not what is told. Returns
    /// the call, if this is its end.
    pub async fn settle(&mut self, mut call: Arc<Call>, image: Option<Box<Call>>) -> Option<Arc<Call>> {
        let was_accepted = self.accepted;
        let news = self.take_transitions(&call);
        fault::pass(Point::BeforeSettle);
        let mut change = Change::new(call.clone(), news);
        if self.waiting.as_ref().is_some_and(|waiting| !waiting.is_closed()) {
            change = change.awaited();
        }
        if let Some(image) = image {
            change = change.with_stored_image(Arc::new(*image));
        }
        let mut written = self.write(change).await;
        if written == Err(JournalError::Refused) {
            // Whatever it is that the database does not take, the call ends.
            (call, written) = Box::pin(self.settle_without_result(&call, news)).await;
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
        news: Transitions,
    ) -> (Arc<Call>, Result<Recorded, JournalError>) {
        let mut other = call.clone();
        other.give_up(Failure::execution(&call.name, "its result could not be recorded"));
        let call = Arc::new(other);
        let written = self.write(Change::new(call.clone(), news)).await;
        (call, written)
    }

    /// The end is on disk already.
    pub fn end_is_written(&mut self, call: Call) {
        self.reply(Ok(Arc::new(call)));
    }

    /// Another node has taken the call, or it has ended: whoever waits is told what is stored.
    pub async fn reply_with_stored(&mut self, call: &Call) {
        tracing::warn!(id = %call.id, "the call went on without this run");
        match self.stores.of(&call.tenant).call(call.id).await {
            Ok(Some(stored)) if stored.status.is_terminal() => self.reply(Ok(Arc::new(stored))),
            _ => self.leave(),
        }
    }

    /// The call goes on elsewhere, or later.
    pub fn leave(&mut self) {
        self.reply(Err(RecordError { accepted: true }));
    }

    /// The caller has waited long enough; the call goes on.
    pub fn give_up_caller(&mut self) {
        self.is_late = true;
        self.reply(Err(RecordError { accepted: self.accepted }));
    }

    /// Whether everything came to disk while the caller was waiting.
    pub fn end(&self) -> Recorded {
        if self.is_late { Recorded::Late } else { Recorded::InTime }
    }

    /// The journal, for changes that nobody waits for.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn reply(&mut self, end: Result<Arc<Call>, RecordError>) {
        if let Some(waiting) = self.waiting.take() {
            // Whoever waited may have gone.
            let _ = waiting.send(end);
        }
    }
}

/// When a change came to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Recorded {
    /// While the caller was waiting.
    InTime,
    /// After the caller was told that it could not be.
    Late,
}
