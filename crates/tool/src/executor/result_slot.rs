//! The slot for a result that is posted over the API. The first result wins.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::PostedResult;
use toolpost_core::domain::{Status, ToolOutput};

/// The slot of one run for a posted result. Cheap to clone; all clones share the slot.
#[derive(Debug, Clone, Default)]
pub struct ResultSlot(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Slot {
    state: State,
    /// Number of posts in progress.
    posters: usize,
    /// Whether the worker that has the call has lost it.
    is_lost: bool,
    /// The digest of the posted result.
    digest: i64,
    /// Receives the end of the call once it is committed, if a poster waits for it.
    recorded: Option<watch::Sender<Option<RecordedEnd>>>,
}

#[derive(Debug, Default)]
enum State {
    /// No result is awaited (yet).
    #[default]
    Inactive,
    /// A stored result came before the run began.
    Early(Box<ToolOutput>),
    /// A result is awaited.
    Open,
    /// A result was posted.
    Posted(Box<ToolOutput>),
    /// The posted result was consumed.
    Taken,
    /// The run produced its own result.
    Answered,
    /// The run ended without a result.
    Closed,
}

impl State {
    /// Ends the slot: consumes the posted result, or rejects later ones.
    fn end(&mut self, end: Self) -> Option<ToolOutput> {
        let (after, answer) = match std::mem::take(self) {
            Self::Early(answer) | Self::Posted(answer) => (Self::Taken, Some(*answer)),
            Self::Inactive | Self::Open => (end, None),
            before => (before, None),
        };
        *self = after;
        answer
    }
}

/// A guard for a post in progress. The run does not end without a result while it exists.
#[derive(Debug)]
pub struct Posting(ResultSlot);

impl Drop for Posting {
    fn drop(&mut self) {
        self.0.slot().posters -= 1;
        self.0.0.changed.notify_waiters();
    }
}

/// The committed end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedEnd {
    /// The status of the call.
    pub status: Status,
    /// The digest of the posted result that the call has ended with; 0 if it has ended otherwise.
    pub digest: i64,
}

/// A post whose poster waits for the end of the call.
#[derive(Debug)]
pub struct RecordedPost(watch::Receiver<Option<RecordedEnd>>);

impl RecordedPost {
    /// Returns `true` if the end of the call is committed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until the call has ended and its end is committed. Returns `None` if the run ends without an end of the call.
    pub async fn end(mut self) -> Option<RecordedEnd> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }
}

/// The outcome of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    /// The posted result is the result of the call.
    Accepted,
    /// The call already has a result or has ended.
    TooLate,
    /// The result is kept until the run begins.
    Kept,
}

impl ResultSlot {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `check`, which is called after each change, returns a value.
    async fn wait<T>(&self, mut check: impl FnMut(&mut Slot) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Registers before the check, so that a change between check and wait is not missed.
            changed.as_mut().enable();
            if let Some(value) = check(&mut self.slot()) {
                return value;
            }
            changed.await;
        }
    }

    /// Allows a result to be posted.
    pub fn open(&self) {
        let mut slot = self.slot();
        slot.state = match std::mem::take(&mut slot.state) {
            State::Inactive => State::Open,
            State::Early(answer) => State::Posted(answer),
            state => state,
        };
    }

    /// Returns `true` if the slot has not been opened.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        matches!(self.slot().state, State::Inactive | State::Early(_))
    }

    /// Returns `true` if a result is awaited, or was posted and not consumed.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        matches!(self.slot().state, State::Open | State::Posted(_))
    }

    /// Returns `true` if the run produced its own result, so that posted results are rejected.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self.slot().state, State::Answered)
    }

    /// Returns `true` if a posted result was consumed and ends the call.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self.slot().state, State::Taken)
    }

    /// Keeps the run from ending without a result while the guard exists; `None` if the run accepts no result.
    #[must_use]
    pub fn posting(&self) -> Option<Posting> {
        let mut slot = self.slot();
        if matches!(slot.state, State::Inactive | State::Early(_) | State::Answered | State::Closed) {
            return None;
        }
        slot.posters += 1;
        Some(Posting(self.clone()))
    }

    /// Posts a result that is stored. It is kept if the run has not begun.
    #[must_use]
    pub fn post(&self, result: impl Into<PostedResult>) -> PostOutcome {
        let PostedResult { output, digest } = result.into();
        let mut slot = self.slot();
        match slot.state {
            State::Inactive => {
                (slot.state, slot.digest) = (State::Early(Box::new(output)), digest);
                PostOutcome::Kept
            }
            State::Open => {
                (slot.state, slot.digest) = (State::Posted(Box::new(output)), digest);
                drop(slot);
                self.0.changed.notify_waiters();
                PostOutcome::Accepted
            }
            State::Early(_) | State::Posted(_) | State::Taken | State::Answered | State::Closed => PostOutcome::TooLate,
        }
    }

    /// Posts a result whose poster waits for its record.
    ///
    /// # Errors
    /// Returns the result if none is awaited and none was posted this way.
    pub fn post_to_record(&self, result: impl Into<PostedResult>) -> Result<RecordedPost, PostedResult> {
        let result = result.into();
        let mut slot = self.slot();
        match (&slot.state, &slot.recorded) {
            (State::Open, _) => {}
            (_, Some(recorded)) => return Ok(RecordedPost(recorded.subscribe())),
            _ => return Err(result),
        }
        let end = slot.recorded.get_or_insert_with(|| watch::Sender::new(None)).subscribe();
        (slot.state, slot.digest) = (State::Posted(Box::new(result.output)), result.digest);
        drop(slot);
        self.0.changed.notify_waiters();
        Ok(RecordedPost(end))
    }

    /// Returns a receiver of the end of the call, for the poster of a result that is stored.
    #[must_use]
    pub fn await_record(&self) -> RecordedPost {
        RecordedPost(self.slot().recorded.get_or_insert_with(|| watch::Sender::new(None)).subscribe())
    }

    /// Returns the sender of the end of the call, if a poster waits for it.
    #[must_use]
    pub fn recorded(&self) -> Option<watch::Sender<Option<RecordedEnd>>> {
        self.slot().recorded.clone()
    }

    /// Returns the digest of the posted result; 0 if none was posted.
    #[must_use]
    pub fn digest(&self) -> i64 {
        self.slot().digest
    }

    /// Records that the run produced its own result. Returns the result that was posted before, which takes precedence.
    #[must_use]
    pub fn answered(&self) -> Option<ToolOutput> {
        self.slot().state.end(State::Answered)
    }

    /// Closes the slot. Returns the posted result that was not consumed, if any.
    #[must_use]
    pub fn close(&self) -> Option<ToolOutput> {
        self.slot().state.end(State::Closed)
    }

    /// Closes the slot like [`ResultSlot::close`] after all posts in progress have finished.
    pub async fn close_after_posters(&self) -> Option<ToolOutput> {
        self.wait(|slot| (slot.posters == 0).then(|| slot.state.end(State::Closed))).await
    }

    /// Waits for the posted result and consumes it.
    pub async fn result(&self) -> ToolOutput {
        let posted = |slot: &mut Slot| match slot.state {
            State::Posted(_) => slot.state.end(State::Taken),
            _ => None,
        };
        self.wait(posted).await
    }

    /// Waits for the posted result and consumes it. Returns `None` if the worker that has the call loses it first.
    pub async fn result_or_loss(&self) -> Option<ToolOutput> {
        let posted = |slot: &mut Slot| match slot.state {
            State::Posted(_) => Some(slot.state.end(State::Taken)),
            _ if slot.is_lost => Some(None),
            _ => None,
        };
        self.wait(posted).await
    }

    /// Returns `true` if a result was posted and not consumed.
    #[must_use]
    pub fn has_posted(&self) -> bool {
        matches!(self.slot().state, State::Posted(_))
    }

    /// Returns `true` if a result was posted, consumed or not.
    #[must_use]
    pub fn has_result(&self) -> bool {
        matches!(self.slot().state, State::Posted(_) | State::Taken)
    }

    /// Records that the worker that has the call has lost it.
    pub fn lose(&self) {
        self.slot().is_lost = true;
        self.0.changed.notify_waiters();
    }

    /// Records that another worker has the call.
    pub fn keep(&self) {
        self.slot().is_lost = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_result_wins_and_early_results_are_kept() {
        let slot = ResultSlot::default();
        assert_eq!(slot.post(ToolOutput::Text("early".into())), PostOutcome::Kept);
        assert_eq!(slot.post(ToolOutput::Text("second".into())), PostOutcome::TooLate);
        assert!(slot.is_shut() && slot.posting().is_none());
        slot.open();
        assert_eq!(slot.result().await, ToolOutput::Text("early".into()));
        let slot = ResultSlot::default();
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Kept);
        assert_eq!((slot.close(), slot.is_taken()), (Some(ToolOutput::Nothing), true));
        let slot = ResultSlot::default();
        slot.open();
        assert_eq!(slot.post(ToolOutput::Text("first".into())), PostOutcome::Accepted);
        assert_eq!(slot.post(ToolOutput::Text("second".into())), PostOutcome::TooLate);
        assert_eq!(slot.result().await, ToolOutput::Text("first".into()));
        assert_eq!((slot.post(ToolOutput::Text("third".into())), slot.close()), (PostOutcome::TooLate, None));
    }

    #[tokio::test]
    async fn lost_run_has_no_result_unless_one_was_posted() {
        let slot = ResultSlot::default();
        slot.open();
        slot.lose();
        assert_eq!(slot.result_or_loss().await, None);
        slot.keep();
        assert!(futures_util::poll!(std::pin::pin!(slot.result_or_loss())).is_pending());
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Accepted);
        slot.lose();
        assert!(slot.has_posted());
        assert_eq!(slot.result_or_loss().await, Some(ToolOutput::Nothing));
    }

    #[tokio::test]
    async fn posters_learn_how_the_call_ends() {
        let slot = ResultSlot::default();
        assert!(slot.post_to_record(ToolOutput::Nothing).is_err(), "no result is awaited");
        slot.open();
        let first = slot.post_to_record(ToolOutput::Text("first".into())).unwrap();
        let other = slot.post_to_record(ToolOutput::Text("other".into())).unwrap();
        assert!(slot.has_result());
        assert_eq!(slot.result().await, ToolOutput::Text("first".into()));
        let late = slot.post_to_record(ToolOutput::Nothing).unwrap();
        assert!(!late.has_ended());
        let end = RecordedEnd { status: Status::Success, digest: slot.digest() };
        assert_eq!(end.digest, PostedResult::from(ToolOutput::Text("first".into())).digest);
        slot.recorded().unwrap().send_replace(Some(end));
        for post in [first, other, late, slot.await_record()] {
            assert_eq!(post.end().await, Some(end));
        }
        assert!(slot.post_to_record(ToolOutput::Text("first".into())).unwrap().has_ended());
    }

    #[tokio::test]
    async fn posters_learn_that_the_run_ended_otherwise() {
        let slot = ResultSlot::default();
        slot.open();
        let post = slot.post_to_record(ToolOutput::Nothing).unwrap();
        drop(slot);
        assert_eq!(post.end().await, None);
        let slot = ResultSlot::default();
        slot.open();
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Accepted);
        assert!(slot.post_to_record(ToolOutput::Nothing).is_err(), "it is stored, so the row decides");
    }

    #[test]
    fn result_posted_just_before_close_is_returned() {
        let slot = ResultSlot::default();
        slot.open();
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Accepted);
        assert_eq!((slot.close(), slot.post(ToolOutput::Nothing)), (Some(ToolOutput::Nothing), PostOutcome::TooLate));
    }

    #[tokio::test]
    async fn close_waits_for_posts_in_progress() {
        let slot = ResultSlot::default();
        assert!(slot.posting().is_none(), "the slot is closed");
        slot.open();
        let posting = slot.posting().unwrap();
        let mut closing = std::pin::pin!(slot.close_after_posters());
        assert!(futures_util::poll!(closing.as_mut()).is_pending());
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Accepted);
        drop(posting);
        assert_eq!(closing.await, Some(ToolOutput::Nothing));
        let closed = ResultSlot::default();
        closed.open();
        assert_eq!(closed.close_after_posters().await, None);
        assert!(closed.posting().is_none() && !closed.is_answered());
    }

    #[test]
    fn posted_result_takes_precedence_over_a_later_own_result() {
        let slot = ResultSlot::default();
        slot.open();
        assert_eq!(slot.post(ToolOutput::Nothing), PostOutcome::Accepted);
        assert_eq!((slot.answered(), slot.is_answered()), (Some(ToolOutput::Nothing), false));
        let slot = ResultSlot::default();
        slot.open();
        assert_eq!((slot.answered(), slot.is_answered()), (None, true));
        assert_eq!((slot.post(ToolOutput::Nothing), slot.close()), (PostOutcome::TooLate, None));
    }
}
