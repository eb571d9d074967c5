//! The stream of arguments of one call. A sender pushes chunks of text; the call reads them and waits for the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::dispatch::OrderTicket;
use toolpost_core::formats::stream::partial::{LIMIT, Partial};

/// Size of the steps in which memory is acquired, in bytes of text.
const STEP: usize = 64 * 1024;

/// A handle to the streamed arguments of one call, for the sender and the call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ArgumentStream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    /// The memory budget of requests.
    memory: Arc<Semaphore>,
    is_concurrency_safe: bool,
    is_asynchronous: bool,
    is_last: bool,
}

#[derive(Debug)]
struct State {
    text: Partial,
    /// Arguments received as a value. They replace the text.
    value: Option<Value>,
    /// The number of the last chunk.
    seq: u64,
    last_activity: Instant,
    is_new: bool,
    end: Option<ArgumentsEnd>,
    is_over: bool,
    /// The memory permits, and the number of bytes of text that they cover.
    held: Vec<OwnedSemaphorePermit>,
    covered: usize,
}

/// The end of the stream: the arguments, or the reason why it ended before they were complete.
type ArgumentsEnd = Result<CompleteArguments, String>;

/// The complete arguments of a call.
#[derive(Debug, Default)]
pub struct CompleteArguments {
    /// The arguments according to the vendor; `None` if the collected chunks are the arguments.
    pub arguments: Option<Value>,
    /// The place of the call among the calls of the same stream.
    pub ticket: Option<OrderTicket>,
    /// Receives a value when the arguments are committed.
    pub recorded: Option<oneshot::Sender<()>>,
}

/// A chunk of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentChunk {
    /// The number of the chunk, from 1; `None` for the next chunk.
    pub seq: Option<u64>,
    /// The text to append.
    pub delta: String,
    /// `true` if the arguments are complete with this chunk.
    pub is_final: bool,
}

/// An error returned when a chunk is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentStreamError {
    /// Chunks before this one are missing.
    #[error("the next chunk is {expected}")]
    Gap {
        /// The number of the next chunk.
        expected: u64,
    },
    /// The arguments are complete, or the call has ended.
    #[error("the arguments are complete, or the call has ended")]
    Closed,
    /// The arguments exceed the maximum length.
    #[error("the arguments are too long")]
    TooLong,
    /// The memory budget is exhausted.
    #[error("too many calls are in flight")]
    #[serde(rename = "no_room")]
    MemoryExhausted,
}

impl ArgumentStream {
    /// Creates a stream that begins with the given text.
    pub(crate) fn new(
        is_concurrency_safe: bool,
        is_asynchronous: bool,
        is_last: bool,
        beginning: &str,
        memory: Arc<Semaphore>,
    ) -> Self {
        let mut state = State {
            text: Partial::default(),
            value: None,
            seq: 0,
            last_activity: Instant::now(),
            is_new: !beginning.is_empty(),
            end: None,
            is_over: false,
            held: Vec::new(),
            // The request that opened the stream holds the memory of its own text.
            covered: beginning.len().max(STEP),
        };
        if state.text.push(beginning).is_err() {
            (state.end, state.is_over) = (Some(Err("they are too long".to_owned())), true);
        }
        let state = Mutex::new(state);
        let changed = Notify::new();
        Self(Arc::new(Shared { state, changed, memory, is_concurrency_safe, is_asynchronous, is_last }))
    }

    /// Returns `true` if the call may run only after all other calls of its stream are known.
    pub fn is_last(&self) -> bool {
        self.0.is_last
    }

    /// Returns `true` if the call may run concurrently with the other calls of its stream.
    pub fn is_concurrency_safe(&self) -> bool {
        self.0.is_concurrency_safe
    }

    /// Returns `true` if the other calls of the stream do not wait for this call.
    pub fn is_asynchronous(&self) -> bool {
        self.0.is_asynchronous
    }

    /// Returns `true` if more chunks are expected.
    pub(crate) fn is_open(&self) -> bool {
        !self.state().is_over
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, ArgumentStreamError> {
        let state = self.state();
        if state.is_over { Err(ArgumentStreamError::Closed) } else { Ok(state) }
    }

    /// Appends a chunk of text. Chunks are numbered from 1; a repeated chunk is ignored. Returns the number of the last
    /// chunk.
    ///
    /// # Errors
    /// Returns an [`ArgumentStreamError`] if a chunk is missing, or this one cannot be stored.
    pub fn push(&self, seq: Option<u64>, chunk: &str) -> Result<u64, ArgumentStreamError> {
        let mut state = self.open()?;
        state.last_activity = Instant::now();
        let expected = state.seq + 1;
        match seq {
            Some(seq) if seq < expected => return Ok(state.seq),
            Some(seq) if seq > expected => return Err(ArgumentStreamError::Gap { expected }),
            _ => {}
        }
        let length = state.text.text().len() + chunk.len();
        if length > state.covered && length <= LIMIT {
            // Four times the text: the text, its value, and the published parameters.
            let more = (length - state.covered).div_ceil(STEP);
            let permits = u32::try_from(more * STEP * 4 / 1024).unwrap_or(u32::MAX);
            let held = self
                .0
                .memory
                .clone()
                .try_acquire_many_owned(permits)
                .map_err(|_| ArgumentStreamError::MemoryExhausted)?;
            state.held.push(held);
            state.covered += more * STEP;
        }
        state.text.push(chunk).map_err(|_| ArgumentStreamError::TooLong)?;
        (state.seq, state.is_new) = (expected, true);
        drop(state);
        self.0.changed.notify_one();
        Ok(expected)
    }

    /// Replaces everything received so far with a value.
    pub fn replace(&self, value: Value) {
        // The sender does not need to know that the stream is closed.
        let Ok(mut state) = self.open() else { return };
        (state.value, state.last_activity, state.is_new) = (Some(value), Instant::now(), true);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Records that the sender is still active.
    pub fn keep_alive(&self) {
        self.state().last_activity = Instant::now();
    }

    /// Completes the arguments.
    ///
    /// # Errors
    /// Returns [`ArgumentStreamError::Closed`] if the arguments were complete before, or the call has ended.
    pub fn complete(&self, complete: CompleteArguments) -> Result<(), ArgumentStreamError> {
        self.end(Ok(complete))
    }

    /// Ends the stream before the arguments are complete.
    pub fn cut_off(&self, reason: &str) {
        // Has no effect on arguments that are complete.
        let _ = self.end(Err(reason.to_owned()));
    }

    fn end(&self, end: ArgumentsEnd) -> Result<(), ArgumentStreamError> {
        let mut state = self.open()?;
        (state.end, state.is_over) = (Some(end), true);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    // The side of the call.

    /// Rejects further chunks.
    pub(crate) fn close(&self) {
        self.state().is_over = true;
    }

    /// Waits until the stream has changed.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Takes the end of the stream, if it has ended.
    pub(crate) fn take_outcome(&self) -> Option<ArgumentsEnd> {
        self.state().end.take()
    }

    /// Returns whether unread data exists, and the time of the last activity of the sender.
    pub(crate) fn poll_changes(&self) -> (bool, Instant) {
        let state = self.state();
        (state.is_new, state.last_activity)
    }

    /// Returns the parameters that can be parsed so far.
    pub(crate) fn readable(&self) -> Option<Map<String, Value>> {
        let mut state = self.state();
        state.is_new = false;
        match &state.value {
            Some(value) => value.as_object().cloned(),
            None => state.text.readable(),
        }
    }

    /// Takes everything received: a value, or text.
    pub(crate) fn arguments(&self) -> Value {
        let mut state = self.state();
        let text = std::mem::take(&mut state.text).into_text();
        state.value.take().unwrap_or(Value::String(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> ArgumentStream {
        ArgumentStream::new(true, false, false, "", Arc::new(Semaphore::new(1024)))
    }

    #[tokio::test]
    async fn chunks_are_accepted_once_and_in_order() {
        let draft = draft();
        assert_eq!(draft.push(Some(1), "{\"a\":"), Ok(1));
        assert_eq!(draft.push(Some(1), "again"), Ok(1));
        assert_eq!(draft.push(Some(3), "later"), Err(ArgumentStreamError::Gap { expected: 2 }));
        assert_eq!(draft.push(Some(2), "1}"), Ok(2));
        assert_eq!(draft.push(None, " "), Ok(3));
        draft.complete(CompleteArguments::default()).unwrap();
        assert_eq!(draft.push(Some(4), " "), Err(ArgumentStreamError::Closed));
        assert_eq!(draft.complete(CompleteArguments::default()), Err(ArgumentStreamError::Closed));
        assert!(matches!(draft.take_outcome(), Some(Ok(_))));
        assert_eq!(draft.arguments(), Value::String("{\"a\":1} ".into()));
    }

    #[tokio::test]
    async fn long_arguments_acquire_memory_and_release_it() {
        let memory = Arc::new(Semaphore::new(256));
        let draft = ArgumentStream::new(true, false, false, "", memory.clone());
        let chunk = "x".repeat(STEP);
        assert_eq!(draft.push(None, &chunk), Ok(1), "covered by the memory of the request that opened the stream");
        assert_eq!(draft.push(None, &chunk), Ok(2));
        assert_eq!(memory.available_permits(), 0);
        assert_eq!(draft.push(None, "x"), Err(ArgumentStreamError::MemoryExhausted));
        drop(draft);
        assert_eq!(memory.available_permits(), 256);
    }

    #[tokio::test]
    async fn value_replaces_text_and_complete_arguments_are_not_cut_off() {
        let draft = draft();
        draft.push(None, "{").unwrap();
        draft.replace(serde_json::json!({"a": "x"}));
        assert_eq!(draft.readable().map(Value::Object), Some(serde_json::json!({"a": "x"})));
        assert!(!draft.poll_changes().0);
        draft.complete(CompleteArguments::default()).unwrap();
        draft.cut_off("late");
        assert!(matches!(draft.take_outcome(), Some(Ok(_))));
        assert_eq!(draft.arguments(), serde_json::json!({"a": "x"}));
    }
}
