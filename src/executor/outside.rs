//! The way in for a result that someone outside posts: the first one wins.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::Answer;

/// Where a posted result arrives. Cheap to clone; all clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct Outside(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    posted: Notify,
    opened: Notify,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody outside works on this call.
    #[default]
    Shut,
    /// A result is awaited.
    Open,
    /// It is here.
    Posted(Box<Answer>),
    /// It was here, and was taken.
    Taken,
}

/// What became of a posted result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It is the call's result.
    Accepted,
    /// Another one came first.
    TooLate,
    /// Nobody outside works on this call.
    NotAwaited,
}

impl Outside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a result may be posted.
    pub fn open(&self) {
        let mut state = self.state();
        if matches!(*state, State::Shut) {
            *state = State::Open;
            self.0.opened.notify_waiters();
        }
    }

    /// Returns when a result may be posted, or when it is too late for one.
    pub async fn opened(&self) {
        let mut opened = std::pin::pin!(self.0.opened.notified());
        // Heard from here on: an opening between the look and the wait is not missed.
        opened.as_mut().enable();
        if matches!(*self.state(), State::Shut) {
            opened.await;
        }
    }

    /// Takes a result from outside.
    #[must_use]
    pub fn post(&self, answer: Answer) -> Posted {
        let mut state = self.state();
        match *state {
            State::Shut => Posted::NotAwaited,
            State::Open => {
                *state = State::Posted(Box::new(answer));
                self.0.posted.notify_one();
                Posted::Accepted
            }
            State::Posted(_) | State::Taken => Posted::TooLate,
        }
    }

    /// No result is awaited any more. The one that is here and was not taken, if there is one.
    #[must_use]
    pub fn close(&self) -> Option<Answer> {
        let before = std::mem::replace(&mut *self.state(), State::Taken);
        self.0.opened.notify_waiters();
        match before {
            State::Posted(answer) => Some(*answer),
            State::Shut | State::Open | State::Taken => None,
        }
    }

    /// The posted result, when it is here.
    pub async fn result(&self) -> Answer {
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
        let outside = Outside::default();
        assert_eq!(outside.post(Answer::Text("early".into())), Posted::NotAwaited);
        outside.open();
        assert_eq!(outside.post(Answer::Text("first".into())), Posted::Accepted);
        assert_eq!(outside.post(Answer::Text("second".into())), Posted::TooLate);
        assert_eq!(outside.result().await, Answer::Text("first".into()));
        assert_eq!((outside.post(Answer::Text("third".into())), outside.close()), (Posted::TooLate, None));
    }

    #[test]
    fn what_was_posted_last_of_all_is_not_lost() {
        let outside = Outside::default();
        outside.open();
        assert_eq!(outside.post(Answer::Nothing), Posted::Accepted);
        assert_eq!((outside.close(), outside.post(Answer::Nothing)), (Some(Answer::Nothing), Posted::TooLate));
    }

    #[tokio::test]
    async fn whoever_comes_before_the_opening_hears_of_it() {
        let outside = Outside::default();
        let mut early = std::pin::pin!(outside.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        outside.open();
        early.await;
        outside.opened().await;
        let shut = Outside::default();
        let mut early = std::pin::pin!(shut.opened());
        assert!(futures_util::poll!(early.as_mut()).is_pending());
        assert_eq!(shut.close(), None);
        early.await;
    }
}
