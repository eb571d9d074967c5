//! The slot for a result that is posted over the API. The first result wins.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::domain::{Status, ToolOutput};

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
    /// Receives the status of the call once it has ended with the posted result and is committed.
    recorded: Option<watch::Sender<Option<Status>>>,
}

#[derive(Debug, Default)]
enum State {
    /// No result may be posted (yet).
    #[default]
    Inactive,
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
            Self::Posted(answer) => (Self::Taken, Some(*answer)),
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

/// A post that is recorded with the end of the call.
#[derive(Debug)]
pub struct RecordedPost {
    /// Whether no other result was posted before.
    pub is_first: bool,
    end: watch::Receiver<Option<Status>>,
}

impl RecordedPost {
    /// Waits until the call has ended with the first posted result, and its end is committed. Returns its status; `None` if
    /// the run ends otherwise.
    pub async fn end(mut self) -> Option<Status> {
        self.end.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }
}

/// The outcome of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    /// The posted result is the result of the call.
    Accepted,
    /// The call already has a result or has ended.
    TooLate,
    /// The call does not accept a posted result.
    NotAwaited,
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
        if matches!(slot.state, State::Inactive) {
            slot.state = State::Open;
        }
    }

    /// Returns `true` if the slot has not been opened.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        matches!(self.slot().state, State::Inactive)
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
        if matches!(slot.state, State::Inactive | State::Answered | State::Closed) {
            return None;
        }
        slot.posters += 1;
        Some(Posting(self.clone()))
    }

    /// Posts a result.
    #[must_use]
    pub fn post(&self, answer: ToolOutput) -> PostOutcome {
        let mut slot = self.slot();
        match slot.state {
            State::Inactive => PostOutcome::NotAwaited,
            State::Open => {
                slot.state = State::Posted(Box::new(answer));
                drop(slot);
                self.0.changed.notify_waiters();
                PostOutcome::Accepted
            }
            State::Posted(_) | State::Taken | State::Answered | State::Closed => PostOutcome::TooLate,
        }
    }

    /// Posts a result whose poster waits for its record.
    ///
    /// # Errors
    /// Returns the result if none is awaited and none was posted this way.
    pub fn post_to_record(&self, answer: ToolOutput) -> Result<RecordedPost, ToolOutput> {
        let mut slot = self.slot();
        match (&slot.state, &slot.recorded) {
            (State::Open, _) => {}
            (_, Some(recorded)) => return Ok(RecordedPost { is_first: false, end: recorded.subscribe() }),
            _ => return Err(answer),
        }
        let (recorded, end) = watch::channel(None);
        (slot.state, slot.recorded) = (State::Posted(Box::new(answer)), Some(recorded));
        drop(slot);
        self.0.changed.notify_waiters();
        Ok(RecordedPost { is_first: true, end })
    }

    /// Returns the sender of the status of the ended call, if a poster waits for it.
    #[must_use]
    pub fn recorded(&self) -> Option<watch::Sender<Option<Status>>> {
        self.slot().recorded.clone()
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
    async fn the_first_result_wins_and_early_results_are_rejected() {
        let slot = ResultSlot::default();
        assert_eq!(slot.post(ToolOutput::Text("early".into())), PostOutcome::NotAwaited);
        slot.open();
        assert_eq!(slot.post(ToolOutput::Text("first".into())), PostOutcome::Accepted);
        assert_eq!(slot.post(ToolOutput::Text("second".into())), PostOutcome::TooLate);
        assert_eq!(slot.result().await, ToolOutput::Text("first".into()));
        assert_eq!((slot.post(ToolOutput::Text("third".into())), slot.close()), (PostOutcome::TooLate, None));
    }

    #[tokio::test]
    async fn a_lost_run_has_no_result_unless_it_was_posted() {
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
        assert_eq!((first.is_first, other.is_first, slot.has_result()), (true, false, true));
        assert_eq!(slot.result().await, ToolOutput::Text("first".into()));
        let late = slot.post_to_record(ToolOutput::Nothing).unwrap();
        slot.recorded().unwrap().send_replace(Some(Status::Success));
        for post in [first, other, late] {
            assert_eq!(post.end().await, Some(Status::Success));
        }
    }

    #[tokio::test]
    async fn posters_of_a_run_that_ends_otherwise_are_told() {
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
    fn a_result_posted_just_before_close_is_returned() {
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
    fn a_posted_result_takes_precedence_over_a_later_own_result() {
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
