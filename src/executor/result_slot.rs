//! The way in for a result that someone outside posts: the first one wins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ToolOutput;

/// Where a posted result arrives. Cheap to clone; all clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct ResultSlot(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Those who are about to post.
    posters: AtomicUsize,
    posted: Notify,
    opened: Notify,
    left: Notify,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody outside works on this call.
    #[default]
    Inactive,
    /// A result is awaited.
    Open,
    /// It is here.
    Posted(Box<ToolOutput>),
    /// It was here, and was taken.
    Taken,
    /// The run has answered by itself.
    Answered,
    /// The run has ended without any.
    Closed,
}

/// Somebody who is about to post: as long as it is there, the run does not end without a result.
#[derive(Debug)]
pub struct Posting(ResultSlot);

impl Drop for Posting {
    fn drop(&mut self) {
        if self.0.0.posters.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.left.notify_waiters();
        }
    }
}

/// What became of a posted result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    /// It is the call's result.
    Accepted,
    /// Another one came first.
    TooLate,
    /// Nobody outside works on this call.
    NotAwaited,
}

impl ResultSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a result may be posted.
    pub fn open(&self) {
        let mut state = self.state();
        if matches!(*state, State::Inactive) {
            *state = State::Open;
            self.0.opened.notify_waiters();
        }
    }

    /// Returns when a result may be posted, or when it is too late for one.
    pub async fn opened(&self) {
        let mut opened = std::pin::pin!(self.0.opened.notified());
        // Heard from here on: an opening between the look and the wait is not missed.
        opened.as_mut().enable();
        if matches!(*self.state(), State::Inactive) {
            opened.await;
        }
    }

    /// Whether nobody outside works on the call yet.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        matches!(*self.state(), State::Inactive)
    }

    /// Whether a result is awaited, or is here and was not taken.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        matches!(*self.state(), State::Open | State::Posted(_))
    }

    /// Whether the run has answered by itself, so that no posted result counts.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(*self.state(), State::Answered)
    }

    /// Returns `true` if a posted result was taken, so that it is the end of the call.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(*self.state(), State::Taken)
    }

    /// Keeps the run from ending without a result until it is posted; `None` while, or since, the run takes none.
    #[must_use]
    pub fn posting(&self) -> Option<Posting> {
        let state = self.state();
        if matches!(*state, State::Inactive | State::Answered | State::Closed) {
            return None;
        }
        self.0.posters.fetch_add(1, Ordering::SeqCst);
        Some(Posting(self.clone()))
    }

    /// Takes a result from outside.
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

    /// The run has an answer of its own. The result that was posted before it, if there is one: then that counts.
    #[must_use]
    pub fn answered(&self) -> Option<ToolOutput> {
        self.end(State::Answered)
    }

    /// No result is awaited any more. The one that is here and was not taken, if there is one.
    #[must_use]
    pub fn close(&self) -> Option<ToolOutput> {
        self.end(State::Closed)
    }

    /// The same, once those who are about to post have done so.
    pub async fn close_after_posters(&self) -> Option<ToolOutput> {
        loop {
            let mut left = std::pin::pin!(self.0.left.notified());
            // Heard from here on: a leaving between the look and the wait is not missed.
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

    /// The posted result, when it is here.
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
    async fn the_first_result_wins_and_none_comes_where_none_is_awaited() {
        let outside = ResultSlot::default();
        assert_eq!(outside.post(ToolOutput::Text("early".into())), PostOutcome::NotAwaited);
        outside.open();
        assert_eq!(outside.post(ToolOutput::Text("first".into())), PostOutcome::Accepted);
        assert_eq!(outside.post(ToolOutput::Text("second".into())), PostOutcome::TooLate);
        assert_eq!(outside.result().await, ToolOutput::Text("first".into()));
        assert_eq!((outside.post(ToolOutput::Text("third".into())), outside.close()), (PostOutcome::TooLate, None));
    }

    #[test]
    fn what_was_posted_last_of_all_is_not_lost() {
        let outside = ResultSlot::default();
        outside.open();
        assert_eq!(outside.post(ToolOutput::Nothing), PostOutcome::Accepted);
        assert_eq!(
            (outside.close(), outside.post(ToolOutput::Nothing)),
            (Some(ToolOutput::Nothing), PostOutcome::TooLate)
        );
    }

    #[tokio::test]
    async fn the_run_does_not_end_before_those_who_are_about_to_post() {
        let outside = ResultSlot::default();
        assert!(outside.posting().is_none(), "it is shut");
        outside.open();
        let posting = outside.posting().unwrap();
        let mut closing = std::pin::pin!(outside.close_after_posters());
        assert!(futures_util::poll!(closing.as_mut()).is_pending());
        assert_eq!(outside.post(ToolOutput::Nothing), PostOutcome::Accepted);
        drop(posting);
        assert_eq!(closing.await, Some(ToolOutput::Nothing));
        let closed = ResultSlot::default();
        closed.open();
        assert_eq!(closed.close_after_posters().await, None);
        assert!(closed.posting().is_none() && !closed.is_answered());
    }

    #[test]
    fn an_answer_of_the_runs_own_comes_after_a_posted_one() {
        let outside = ResultSlot::default();
        outside.open();
        assert_eq!(outside.post(ToolOutput::Nothing), PostOutcome::Accepted);
        assert_eq!((outside.answered(), outside.is_answered()), (Some(ToolOutput::Nothing), false));
        let outside = ResultSlot::default();
        outside.open();
        assert_eq!((outside.answered(), outside.is_answered()), (None, true));
        assert_eq!((outside.post(ToolOutput::Nothing), outside.close()), (PostOutcome::TooLate, None));
    }

    #[tokio::test]
    async fn whoever_comes_before_the_opening_hears_of_it() {
        let outside = ResultSlot::default();
        let mut early = std::pin::pin!(outside.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        outside.open();
        early.await;
        outside.opened().await;
        let shut = ResultSlot::default();
        let mut early = std::pin::pin!(shut.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        assert_eq!(shut.close(), None);
        early.await;
    }
}
