//! The slot for a result that is posted over the API. The first result wins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ToolOutput;

/// The slot of one run for a posted result. Cheap to clone; all clones share the slot.
#[derive(Debug, Clone, Default)]
pub struct ResultSlot(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Number of posts in progress.
    posters: AtomicUsize,
    posted: Notify,
    opened: Notify,
    left: Notify,
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

/// A guard for a post in progress. The run does not end without a result while it exists.
#[derive(Debug)]
pub struct Posting(ResultSlot);

impl Drop for Posting {
    fn drop(&mut self) {
        if self.0.0.posters.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.left.notify_waiters();
        }
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows a result to be posted.
    pub fn open(&self) {
        let mut state = self.state();
        if matches!(*state, State::Inactive) {
            *state = State::Open;
            self.0.opened.notify_waiters();
        }
    }

    /// Waits until a result may be posted or the run has ended.
    pub async fn opened(&self) {
        let mut opened = std::pin::pin!(self.0.opened.notified());
        // Registers before the check, so that an `open` between check and wait is not missed.
        opened.as_mut().enable();
        if matches!(*self.state(), State::Inactive) {
            opened.await;
        }
    }

    /// Returns `true` if the slot has not been opened.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        matches!(*self.state(), State::Inactive)
    }

    /// Returns `true` if a result is awaited, or was posted and not consumed.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        matches!(*self.state(), State::Open | State::Posted(_))
    }

    /// Returns `true` if the run produced its own result, so that posted results are rejected.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(*self.state(), State::Answered)
    }

    /// Returns `true` if a posted result was consumed and ends the call.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(*self.state(), State::Taken)
    }

    /// Keeps the run from ending without a result while the guard exists; `None` if the run accepts no result.
    #[must_use]
    pub fn posting(&self) -> Option<Posting> {
        let state = self.state();
        if matches!(*state, State::Inactive | State::Answered | State::Closed) {
            return None;
        }
        self.0.posters.fetch_add(1, Ordering::SeqCst);
        Some(Posting(self.clone()))
    }

    /// Posts a result.
    #[must_use]
    pub fn post(&self, answer: ToolOutput) -> PostOutcome {
        let mut state = self.state();
        match *state {
            State::Inactive => PostOutcome::NotAwaited,
            State::Open => {
                *state = State::Posted(Box::new(answer));
                self.0.posted.notify_one();
                PostOutcome::Accepted
            }
            State::Posted(_) | State::Taken | State::Answered | State::Closed => PostOutcome::TooLate,
        }
    }

    /// Records that the run produced its own result. Returns the result that was posted before, which takes precedence.
    #[must_use]
    pub fn answered(&self) -> Option<ToolOutput> {
        self.end(State::Answered)
    }

    /// Closes the slot. Returns the posted result that was not consumed, if any.
    #[must_use]
    pub fn close(&self) -> Option<ToolOutput> {
        self.end(State::Closed)
    }

    /// Closes the slot like [`ResultSlot::close`] after all posts in progress have finished.
    pub async fn close_after_posters(&self) -> Option<ToolOutput> {
        loop {
            let mut left = std::pin::pin!(self.0.left.notified());
            // Registers before the check, so that the end of a post between check and wait is not missed.
            left.as_mut().enable();
            {
                let state = self.state();
                if self.0.posters.load(Ordering::SeqCst) == 0 {
                    return self.ended(state, State::Closed);
                }
            }
            left.await;
        }
    }

    fn end(&self, end: State) -> Option<ToolOutput> {
        self.ended(self.state(), end)
    }

    fn ended(&self, mut state: MutexGuard<'_, State>, end: State) -> Option<ToolOutput> {
        let (after, answer) = match std::mem::take(&mut *state) {
            State::Posted(answer) => (State::Taken, Some(*answer)),
            State::Inactive | State::Open => (end, None),
            before @ (State::Taken | State::Answered | State::Closed) => (before, None),
        };
        *state = after;
        drop(state);
        self.0.opened.notify_waiters();
        answer
    }

    /// Waits for the posted result and consumes it.
    pub async fn result(&self) -> ToolOutput {
        loop {
            {
                let mut state = self.state();
                if matches!(*state, State::Posted(_))
                    && let State::Posted(answer) = std::mem::replace(&mut *state, State::Taken)
                {
                    return *answer;
                }
            }
            self.0.posted.notified().await;
        }
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

    #[tokio::test]
    async fn opened_returns_after_open() {
        let slot = ResultSlot::default();
        let mut early = std::pin::pin!(slot.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        slot.open();
        early.await;
        slot.opened().await;
        let shut = ResultSlot::default();
        let mut early = std::pin::pin!(shut.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        assert_eq!(shut.close(), None);
        early.await;
    }
}
