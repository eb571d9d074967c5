//! The arguments of one call while they come piece by piece: whoever sends them on one side, the call on the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::call_order::OrderTicket;
use crate::formats::stream::partial::{LIMIT, Partial};

/// Bytes of text for which room is taken at once.
const STEP: usize = 64 * 1024;

/// The sender's end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ArgumentStream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    /// Memory for requests in flight.
    room: Arc<Semaphore>,
    is_concurrency_safe: bool,
    is_asynchronous: bool,
    is_last: bool,
}

#[derive(Debug)]
struct State {
    text: Partial,
    /// Arguments that come as a value; they count instead of the text.
    value: Option<Value>,
    /// The number of the last piece.
    seq: u64,
    heard: Instant,
    is_new: bool,
    end: Option<ArgumentsEnd>,
    is_over: bool,
    /// The room that it has taken, and for how many bytes of text.
    held: Vec<OwnedSemaphorePermit>,
    covered: usize,
}

/// How the pieces end.
#[derive(Debug)]
pub(super) enum ArgumentsEnd {
    /// They are the arguments.
    Complete(CompleteArguments),
    /// There will be no more of them, for this reason.
    CutOff(String),
}

/// Complete arguments.
#[derive(Debug, Default)]
pub struct CompleteArguments {
    /// What the model's vendor says that they are; the pieces, where it says nothing.
    pub arguments: Option<Value>,
    /// Its place among the calls of the same stream.
    pub turn: Option<OrderTicket>,
    /// Who waits until they are on disk.
    pub recorded: Option<oneshot::Sender<()>>,
}

/// Why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentStreamError {
    /// Pieces between the last one and this one are missing.
    #[error("piece {expected} is the next")]
    Gap {
        /// The number of the next piece.
        expected: u64,
    },
    /// They are complete, or the call has ended.
    #[error("the arguments are complete, or the call has ended")]
    Closed,
    /// They are longer than arguments may be.
    #[error("the arguments are too long")]
    TooLong,
    /// Too much is in flight.
    #[error("too many calls are in flight")]
    NoRoom,
}

impl ArgumentStream {
    /// A draft that begins with this text, which is no longer than a request's body.
    pub(super) fn new(is_concurrency_safe: bool, is_asynchronous: bool, beginning: &str, room: Arc<Semaphore>) -> Self {
        let mut state = State {
            text: Partial::default(),
            value: None,
            seq: 0,
            heard: Instant::now(),
            is_new: !beginning.is_empty(),
            end: None,
            is_over: false,
            held: Vec::new(),
            // The request that opened it has room for its own.
            covered: beginning.len().max(STEP),
        };
        if state.text.push(beginning).is_err() {
            (state.end, state.is_over) = (Some(ArgumentsEnd::CutOff("they are too long".to_owned())), true);
        }
        let state = Mutex::new(state);
        Self(Arc::new(Shared {
            state,
            changed: Notify::new(),
            room,
            is_concurrency_safe,
            is_asynchronous,
            is_last: false,
        }))
    }

    /// The same of a call that comes after all others of its stream.
    pub(super) fn last(self, is_last: bool) -> Self {
        Self(Arc::try_unwrap(self.0).map_or_else(|shared| shared, |shared| Arc::new(Shared { is_last, ..shared })))
    }

    /// Whether the call is to run only once it is known whether there are others beside it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.0.is_last
    }

    /// Whether the call may run beside its neighbours.
    #[must_use]
    pub fn is_concurrency_safe(&self) -> bool {
        self.0.is_concurrency_safe
    }

    /// Whether its neighbours do not wait for it.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.0.is_asynchronous
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, ArgumentStreamError> {
        let state = self.state();
        if state.is_over { Err(ArgumentStreamError::Closed) } else { Ok(state) }
    }

    /// Takes a piece of the arguments' text. Pieces are numbered from 1; one that was there before is ignored. Returns the
    /// number of the last one.
    ///
    /// # Errors
    /// If it is not the next one, or there is no place for it.
    pub fn push(&self, seq: Option<u64>, piece: &str) -> Result<u64, ArgumentStreamError> {
        let mut state = self.open()?;
        state.heard = Instant::now();
        let expected = state.seq + 1;
        match seq {
            Some(seq) if seq < expected => return Ok(state.seq),
            Some(seq) if seq > expected => return Err(ArgumentStreamError::Gap { expected }),
            _ => {}
        }
        let length = state.text.text().len() + piece.len();
        if length > state.covered && length <= LIMIT {
            // Text, its value, and what is shown of it.
            let more = (length - state.covered).div_ceil(STEP);
            let permits = u32::try_from(more * STEP * 4 / 1024).unwrap_or(u32::MAX);
            let held = self.0.room.clone().try_acquire_many_owned(permits).map_err(|_| ArgumentStreamError::NoRoom)?;
            state.held.push(held);
            state.covered += more * STEP;
        }
        state.text.push(piece).map_err(|_| ArgumentStreamError::TooLong)?;
        (state.seq, state.is_new) = (expected, true);
        drop(state);
        self.0.changed.notify_one();
        Ok(expected)
    }

    /// Takes the arguments so far as a value, instead of all that was known.
    pub fn replace(&self, value: Value) {
        // Whoever sends them has nothing to be told.
        let Ok(mut state) = self.open() else { return };
        (state.value, state.heard, state.is_new) = (Some(value), Instant::now(), true);
        drop(state);
        self.0.changed.notify_one();
    }

    /// More is still to come.
    pub fn keep_alive(&self) {
        self.state().heard = Instant::now();
    }

    /// They are complete.
    ///
    /// # Errors
    /// If they were before, or the call has ended.
    pub fn complete(&self, complete: CompleteArguments) -> Result<(), ArgumentStreamError> {
        self.end(ArgumentsEnd::Complete(complete))
    }

    /// There will be no more, for this reason.
    pub fn cut_off(&self, reason: &str) {
        // Arguments that are complete stay so.
        let _ = self.end(ArgumentsEnd::CutOff(reason.to_owned()));
    }

    fn end(&self, end: ArgumentsEnd) -> Result<(), ArgumentStreamError> {
        let mut state = self.open()?;
        (state.end, state.is_over) = (Some(end), true);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    // The call's side.

    /// No more is taken.
    pub(super) fn close(&self) {
        self.state().is_over = true;
    }

    /// Pends until something has come.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The end, once it has come.
    pub(super) fn take_outcome(&self) -> Option<ArgumentsEnd> {
        self.state().end.take()
    }

    /// Whether there is something that was not read yet, and when the last piece came.
    pub(super) fn poll_changes(&self) -> (bool, Instant) {
        let state = self.state();
        (state.is_new, state.heard)
    }

    /// The parameters that can be read so far.
    pub(super) fn readable(&self) -> Option<Map<String, Value>> {
        let mut state = self.state();
        state.is_new = false;
        match &state.value {
            Some(value) => value.as_object().cloned(),
            None => state.text.readable(),
        }
    }

    /// All that has come: a value, or a text.
    pub(super) fn arguments(&self) -> Value {
        let mut state = self.state();
        let text = std::mem::take(&mut state.text).into_text();
        state.value.take().unwrap_or(Value::String(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> ArgumentStream {
        ArgumentStream::new(true, false, "", Arc::new(Semaphore::new(1024)))
    }

    #[tokio::test]
    async fn pieces_are_taken_once_and_in_order() {
        let draft = draft();
        assert_eq!(draft.push(Some(1), "{\"a\":"), Ok(1));
        assert_eq!(draft.push(Some(1), "again"), Ok(1));
        assert_eq!(draft.push(Some(3), "later"), Err(ArgumentStreamError::Gap { expected: 2 }));
        assert_eq!(draft.push(Some(2), "1}"), Ok(2));
        assert_eq!(draft.push(None, " "), Ok(3));
        draft.complete(CompleteArguments::default()).unwrap();
        assert_eq!(draft.push(Some(4), " "), Err(ArgumentStreamError::Closed));
        assert_eq!(draft.complete(CompleteArguments::default()), Err(ArgumentStreamError::Closed));
        assert!(matches!(draft.take_outcome(), Some(ArgumentsEnd::Complete(_))));
        assert_eq!(draft.arguments(), Value::String("{\"a\":1} ".into()));
    }

    #[tokio::test]
    async fn long_arguments_take_room_as_they_come_and_give_it_back() {
        let room = Arc::new(Semaphore::new(256));
        let draft = ArgumentStream::new(true, false, "", room.clone());
        let piece = "x".repeat(STEP);
        assert_eq!(draft.push(None, &piece), Ok(1), "the request that opened it has room for that");
        assert_eq!(draft.push(None, &piece), Ok(2));
        assert_eq!(room.available_permits(), 0);
        assert_eq!(draft.push(None, "x"), Err(ArgumentStreamError::NoRoom));
        drop(draft);
        assert_eq!(room.available_permits(), 256);
    }

    #[tokio::test]
    async fn what_comes_as_a_value_counts_and_complete_arguments_are_not_cut_off() {
        let draft = draft();
        draft.push(None, "{").unwrap();
        draft.replace(serde_json::json!({"a": "x"}));
        assert_eq!(draft.readable().map(Value::Object), Some(serde_json::json!({"a": "x"})));
        assert!(!draft.poll_changes().0);
        draft.complete(CompleteArguments::default()).unwrap();
        draft.cut_off("late");
        assert!(matches!(draft.take_outcome(), Some(ArgumentsEnd::Complete(_))));
        assert_eq!(draft.arguments(), serde_json::json!({"a": "x"}));
    }
}
