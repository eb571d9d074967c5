//! The response of `POST /tool-calls` as an event stream: the calls' events, followed by the content of the JSON
//! response.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio_util::sync::DropGuard;
use uuid::Uuid;

use super::AppState;
use crate::access::Access;
use crate::domain::event::{Event, EventKind, Stage};
use crate::domain::{Call, Cursor};
use crate::engine::{InFlightCalls, RecordError};
use crate::events::bus::CallSubscription;
use crate::events::follow::Followers;
use crate::events::frame::{self, FramedEvent};
use crate::formats::messages::Continuation;
use crate::formats::native::{BatchAnswer, ToolCall};

/// Streams the calls' events, followed by the `batch` event.
pub(super) fn stream(
    state: AppState,
    access: Access,
    reader: CallSubscription,
    ids: Vec<Uuid>,
    submitted: InFlightCalls,
    continuation: Option<Arc<Continuation>>,
) -> Response {
    let ended = HashMap::with_capacity(ids.len());
    let batch_id = submitted.batch_id;
    let (pending, guards) = submitted.detach();
    let ends = pending.into_iter().map(|pending| Box::pin(pending.end()) as End).collect();
    let watch = EventResponse {
        reader,
        ids,
        ended,
        ends,
        guards,
        batch_id,
        continuation,
        is_over: false,
        is_late: false,
        last: Cursor::default(),
        followers: Followers::default(),
        state,
        access,
    };
    let events = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|piece| (piece, watch)) });
    let opening = stream::once(std::future::ready(frame::OPENING));
    sse(opening.chain(events).map(Ok::<_, Infallible>))
}

/// Renders the last event. Results are shortened as in events, but messages are complete because clients append them
/// unchanged.
pub(super) fn batch(
    id: &Cursor,
    batch_id: Option<Uuid>,
    calls: &[&Call],
    continuation: Option<&Continuation>,
) -> Bytes {
    let results = calls.iter().map(|call| ToolCall::short(call)).collect();
    let messages = continuation.map(|continuation| continuation.messages(calls));
    let data = serde_json::to_string(&BatchAnswer { batch_id, results, messages }).unwrap_or_default();
    frame::frame(id, EventKind::Batch.as_str(), &data)
}

/// Returns the event stream of a message without calls.
pub(super) async fn nothing(state: &AppState) -> Response {
    let data = serde_json::to_string(&BatchAnswer::nothing()).unwrap_or_default();
    let end = frame::frame(state.stores.newest().await.unwrap_or_default(), EventKind::Batch.as_str(), &data);
    sse(stream::iter([Ok(frame::OPENING), Ok(end)]))
}

/// Returns an SSE response with headers that prevent proxies from buffering or caching it.
pub(super) fn sse(frames: impl stream::Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// How long a stream waits for its last events when the service shuts down.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// A future that completes when a call has ended.
type End = Pin<Box<dyn Future<Output = Result<Arc<Call>, RecordError>> + Send>>;

struct EventResponse {
    reader: CallSubscription,
    ids: Vec<Uuid>,
    /// The ended calls, taken from their events. This includes calls whose end was recorded late.
    ended: HashMap<Uuid, Arc<Call>>,
    /// Used to detect calls whose end is not published on this node.
    ends: FuturesUnordered<End>,
    /// Guards that cancel calls when the client disconnects.
    guards: Vec<DropGuard>,
    batch_id: Option<Uuid>,
    continuation: Option<Arc<Continuation>>,
    is_over: bool,
    /// Whether the end of a call could not be recorded in time.
    is_late: bool,
    /// The id of the last event sent.
    last: Cursor,
    followers: Followers,
    state: AppState,
    access: Access,
}

impl EventResponse {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.ended.len() == self.ids.len() {
            self.is_over = true;
            std::mem::take(&mut self.guards).into_iter().for_each(|guard| drop(guard.disarm()));
            return Some(self.end());
        }
        tokio::select! {
            biased;
            event = self.reader.events.recv() => match event {
                Some(event) => Some(self.frames_of(&event).await),
                None => {
                    self.is_over = true;
                    Some(frame::CUT_OFF)
                }
            },
            // Calls that end during shutdown still get their events.
            () = async { self.state.closing.cancelled().await; tokio::time::sleep(LAST_EVENTS).await } => None,
            () = tokio::time::sleep(crate::events::stream::HEARTBEAT) => {
                while let Some(Some(end)) = self.ends.next().now_or_never() {
                    self.is_late |= end.is_err();
                }
                // All calls have ended, but some ends were published by another node, so the client must reconnect. The
                // stream continues while an end that could not be recorded in time is still missing from the database.
                self.is_over = self.ends.is_empty() && (!self.is_late || are_ended_on_disk(&self.access, &self.ids).await);
                Some(if self.is_over { frame::CUT_OFF } else { frame::HEARTBEAT })
            }
        }
    }

    async fn frames_of(&mut self, event: &FramedEvent) -> Bytes {
        let Self { followers, access, ended, .. } = self;
        let sent = |event: &Event| {
            if event.stage == Stage::Result {
                ended.insert(event.call.id, event.call.clone());
            }
        };
        let frames = followers.frames_of(access.store(), event, sent).await;
        self.last = event.seen();
        self.is_over = frames.is_none();
        frames.unwrap_or(frame::CUT_OFF)
    }

    fn end(&self) -> Bytes {
        let calls: Vec<&Call> = self.ids.iter().filter_map(|id| self.ended.get(id).map(|call| &**call)).collect();
        batch(&self.last, self.batch_id, &calls, self.continuation.as_deref())
    }
}

async fn are_ended_on_disk(access: &Access, ids: &[Uuid]) -> bool {
    let stored = access.store().calls_of(ids).await.unwrap_or_default();
    stored.len() == ids.len() && stored.iter().all(|call| call.status.is_terminal())
}
