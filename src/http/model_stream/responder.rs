//! The responding side of a model stream: the calls' events as they happen, then the batch.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use uuid::Uuid;

use crate::access::Access;
use crate::domain::event::{Event, EventKind, Stage};
use crate::domain::{Call, Cursor, Vendor};
use crate::engine::{PendingCall, RecordError};
use crate::events::bus::CallSubscription;
use crate::events::follow::Followers;
use crate::events::frame::{self, FramedEvent};
use crate::events::stream::HEARTBEAT;
use crate::formats::messages::{Continuation, Kind};
use crate::formats::native::{BatchAnswer, ToolCall};
use crate::http::AppState;

/// Timeout for the last events, once all calls have ended or the service is shutting down.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// A message from the reader.
pub(super) enum ReaderMessage {
    /// An event to send that is not stored.
    Card { event: EventKind, data: String },
    /// A call was accepted.
    Opened { shown: ModelCall, pending: Vec<PendingCall>, guards: Vec<DropGuard> },
    /// A call was rejected; `call` has ended with the failure.
    Refused { shown: ModelCall, call: Arc<Call> },
    /// The stream has ended; `fault` is the reason if it was interrupted.
    Over { vendor: Option<Vendor>, fault: Option<String> },
}

/// A call as the model made it.
pub(super) struct ModelCall {
    pub id: Option<String>,
    pub name: String,
    pub kind: Kind,
}

/// A future of a call's outcome, with the index of the call.
type End = Pin<Box<dyn Future<Output = (usize, Result<Arc<Call>, RecordError>)> + Send>>;

struct Entry {
    id: Uuid,
    shown: ModelCall,
    call: Option<Arc<Call>>,
    has_ended: bool,
    is_reported: bool,
}

/// The response to one model stream.
pub(super) struct ModelStreamResponder {
    state: AppState,
    access: Access,
    batch_id: Option<Uuid>,
    reader: CallSubscription,
    notes: mpsc::Receiver<ReaderMessage>,
    calls: Vec<Entry>,
    ends: FuturesUnordered<End>,
    /// Guards of calls that are cancelled if the client disconnects.
    guards: Vec<DropGuard>,
    over: Option<(Option<Vendor>, Option<String>)>,
    /// The time when all calls had ended. Their last events may still be missing.
    all_ended: Option<Instant>,
    is_done: bool,
    /// Whether the client has read too slowly and missed events.
    is_behind: bool,
    /// The id of the last event sent; initially one before the first event of the calls.
    last: Cursor,
    followers: Followers,
}

/// The data of `batch`, the last event of a model stream.
#[derive(Serialize)]
struct Batch<'a> {
    #[serde(flatten)]
    answer: BatchAnswer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_error: Option<&'a str>,
}

impl ModelStreamResponder {
    pub(super) fn new(
        state: AppState,
        access: Access,
        batch_id: Option<Uuid>,
        reader: CallSubscription,
        notes: mpsc::Receiver<ReaderMessage>,
        last: Cursor,
    ) -> Self {
        Self {
            state,
            access,
            batch_id,
            reader,
            notes,
            calls: Vec::new(),
            ends: FuturesUnordered::new(),
            guards: Vec::new(),
            over: None,
            all_ended: None,
            is_done: false,
            is_behind: false,
            last,
            followers: Followers::default(),
        }
    }

    /// Returns the body of the response.
    pub(super) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        let events = stream::unfold(self, |mut answer| async move { answer.next().await.map(|piece| (piece, answer)) });
        stream::once(std::future::ready(frame::OPENING)).chain(events).map(Ok)
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_done {
                return None;
            }
            if self.is_complete() {
                return Some(self.end().await);
            }
            let given_up = self.all_ended.map(|at| at + LAST_EVENTS_TIMEOUT);
            let closing = self.state.closing.clone();
            tokio::select! {
                biased;
                note = self.notes.recv(), if self.over.is_none() => match note {
                    // A card has no position; the client resumes from the last stored event.
                    Some(ReaderMessage::Card { event, data }) => return Some(frame::frame(&self.last, event.as_str(), &data)),
                    Some(note) => self.handle_message(note),
                    // The reader was dropped without a final message: it has panicked.
                    None => self.over = Some((None, Some("the stream cannot be read".to_owned()))),
                },
                event = self.reader.events.recv(), if !self.is_behind => {
                    let Some(event) = event else {
                        // The batch is sent in any case.
                        self.is_behind = true;
                        return Some(frame::CUT_OFF);
                    };
                    return Some(self.frames_of(&event).await);
                }
                Some((index, end)) = self.ends.next() => self.call_ended(index, end),
                () = async {
                    closing.cancelled().await;
                    tokio::time::sleep(LAST_EVENTS_TIMEOUT).await;
                } => return None,
                () = async {
                    match given_up {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                } => return Some(self.end().await),
                () = tokio::time::sleep(HEARTBEAT) => return Some(frame::HEARTBEAT),
            }
        }
    }

    async fn frames_of(&mut self, event: &FramedEvent) -> Bytes {
        let Self { followers, access, calls, .. } = self;
        let sent = |event: &Event| {
            if event.stage == Stage::Result
                && let Some(entry) = calls.iter_mut().find(|entry| entry.id == event.call.id)
            {
                (entry.is_reported, entry.call) = (true, Some(event.call.clone()));
            }
        };
        let frames = followers.frames_of(access.store(), event, sent).await;
        self.last = event.seen();
        self.is_behind = frames.is_none();
        frames.unwrap_or(frame::CUT_OFF)
    }

    fn handle_message(&mut self, note: ReaderMessage) {
        match note {
            ReaderMessage::Opened { shown, pending, guards } => {
                self.guards.extend(guards);
                let Some(pending) = pending.into_iter().next() else { return };
                let index = self.calls.len();
                self.calls.push(Entry { id: pending.id, shown, call: None, has_ended: false, is_reported: false });
                self.ends.push(Box::pin(async move { (index, pending.end().await) }));
            }
            ReaderMessage::Refused { shown, call } => {
                self.calls.push(Entry { id: call.id, shown, call: Some(call), has_ended: true, is_reported: true });
            }
            ReaderMessage::Over { vendor, fault } => self.over = Some((vendor, fault)),
            ReaderMessage::Card { .. } => {}
        }
        self.update_all_ended();
    }

    fn call_ended(&mut self, index: usize, end: Result<Arc<Call>, RecordError>) {
        let Some(entry) = self.calls.get_mut(index) else { return };
        entry.has_ended = true;
        entry.call = end.ok().or(entry.call.take());
        self.update_all_ended();
    }

    /// Records the time when all calls have ended, which may be before their last events arrive.
    fn update_all_ended(&mut self) {
        let is_all = self.over.is_some() && self.calls.iter().all(|entry| entry.has_ended);
        self.all_ended = self.all_ended.or(is_all.then(Instant::now));
    }

    fn is_complete(&self) -> bool {
        self.over.is_some() && self.calls.iter().all(|entry| entry.is_reported)
    }

    async fn end(&mut self) -> Bytes {
        self.is_done = true;
        std::mem::take(&mut self.guards).into_iter().for_each(|guard| drop(guard.disarm()));
        // Calls that were not recorded in time or were adopted by another node are sent as stored.
        let missing: Vec<Uuid> = self.calls.iter().filter(|entry| entry.call.is_none()).map(|entry| entry.id).collect();
        if !missing.is_empty() {
            for call in self.access.store().calls_of(&missing).await.unwrap_or_default() {
                if let Some(entry) = self.calls.iter_mut().find(|entry| entry.id == call.id) {
                    entry.call = Some(Arc::new(call));
                }
            }
        }
        let (vendor, fault) = self.over.take().unwrap_or_default();
        let known: Vec<(&ModelCall, &Call)> =
            self.calls.iter().filter_map(|entry| Some((&entry.shown, entry.call.as_deref()?))).collect();
        let mut continuation = vendor.map(Continuation::new);
        if let Some(continuation) = &mut continuation {
            known.iter().for_each(|(shown, _)| continuation.push(shown.id.as_deref(), &shown.name, shown.kind));
        }
        let calls: Vec<&Call> = known.iter().map(|(_, call)| *call).collect();
        let messages =
            continuation.map_or_else(|| Value::Array(Vec::new()), |continuation| continuation.messages(&calls));
        let results = calls.into_iter().map(ToolCall::short).collect();
        let answer = BatchAnswer { batch_id: self.batch_id, results, messages: Some(messages) };
        let data = serde_json::to_string(&Batch { answer, stream_error: fault.as_deref() }).unwrap_or_default();
        frame::frame(&self.last, EventKind::Batch.as_str(), &data)
    }
}
