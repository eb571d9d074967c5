//! Resumable streams: subscribe first, read stored events, then switch to live events and drop duplicates.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::bus::{Bus, COMMITS_BEHIND, CallSubscription};
use super::follow::{Follower, ReadBack, Step};
use super::frame::{self, CommitFrames, FramedEvent};
use super::throttle::ReadThrottle;
use crate::domain::AllowList;
use crate::domain::event::{Event, Stage};
use crate::store::{Store, StoreError};

/// Interval of heartbeats in an idle stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Number of commits that are read from the store at once.
const PAGE: u32 = 16;

/// Delay before a failed read from the store is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The next frames of a stream.
type Piece = Option<Bytes>;

/// A source of the frames of one SSE body.
trait FrameSource: Send + 'static {
    /// Returns the next frames; `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Piece> + Send;
}

fn body(pieces: impl FrameSource) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let opening = stream::once(std::future::ready(Ok(frame::OPENING)));
    let rest = stream::unfold(pieces, |mut pieces| async move { pieces.next().await.map(|piece| (Ok(piece), pieces)) });
    futures_util::StreamExt::chain(opening, rest)
}

fn heartbeat() -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Streams the events of one call after the position `after` until its end. Returns `None` if the call does not exist.
///
/// # Errors
/// Returns an error if the store fails before the stream begins.
pub async fn of_call(
    store: &Store,
    bus: &Bus,
    id: Uuid,
    after: i64,
    closing: CancellationToken,
) -> Result<Option<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static>, StoreError> {
    let reader = bus.subscribe(vec![id]);
    let Some(events) = store.events_of(id).await? else { return Ok(None) };
    let mut pieces = CallStream {
        id,
        follower: Follower::after(after),
        ended: false,
        is_behind: false,
        stored: VecDeque::new(),
        reader,
        store: store.clone(),
        heartbeat: heartbeat(),
        closing,
    };
    let known = pieces.follower.read(events);
    pieces.append(known);
    Ok(Some(body(pieces)))
}

struct CallStream {
    id: Uuid,
    follower: Follower,
    ended: bool,
    /// Whether events of another node are missing.
    is_behind: bool,
    stored: VecDeque<Bytes>,
    reader: CallSubscription,
    store: Store,
    heartbeat: Interval,
    closing: CancellationToken,
}

impl CallStream {
    fn append(&mut self, ReadBack { events, has_ended }: ReadBack) {
        self.stored.extend(events.into_iter().map(|event| FramedEvent::from(event).bytes()));
        self.ended = self.ended || has_ended;
    }

    /// Fills a gap from the store. The event after the gap was not sent and is among the events that are read.
    async fn catch_up(&mut self) -> Piece {
        match self.follower.read_back(&self.store, self.id).await {
            Ok(Some(known)) => {
                self.is_behind = false;
                self.append(known);
                self.stored.pop_front()
            }
            // The call was deleted, or its row is corrupt.
            Ok(None) | Err(StoreError::Corrupt(_)) => {
                self.ended = true;
                None
            }
            Err(_) => {
                tokio::time::sleep(RETRY_DELAY).await;
                Some(frame::HEARTBEAT)
            }
        }
    }
}

impl FrameSource for CallStream {
    async fn next(&mut self) -> Piece {
        loop {
            if let Some(piece) = self.stored.pop_front() {
                return Some(piece);
            }
            if self.ended {
                return None;
            }
            if self.is_behind {
                let closing = self.closing.clone();
                let caught_up = tokio::select! {
                    () = closing.cancelled() => return None,
                    piece = self.catch_up() => piece,
                };
                match caught_up {
                    Some(piece) => return Some(piece),
                    None => continue,
                }
            }
            tokio::select! {
                () = self.closing.cancelled() => return None,
                event = self.reader.events.recv() => match event {
                    Some(event) => {
                        let is_last = event.event.stage == Stage::Result;
                        match self.follower.step(&event.event) {
                            Step::Next => {
                                self.ended = is_last;
                                return Some(event.bytes());
                            }
                            Step::Gap => self.is_behind = true,
                            // The end was sent from the store already.
                            Step::Seen if is_last => return None,
                            Step::Seen => {}
                        }
                    }
                    None => {
                        self.ended = true;
                        return Some(frame::CUT_OFF);
                    }
                },
                // Events of other nodes are not published here, so the store is read regularly.
                _ = self.heartbeat.tick() => match self.follower.read_back(&self.store, self.id).await {
                    Ok(Some(known)) => {
                        self.append(known);
                        if self.stored.is_empty() {
                            return Some(frame::HEARTBEAT);
                        }
                    }
                    Ok(None) => return None,
                    Err(_) => return Some(frame::HEARTBEAT),
                },
            }
        }
    }
}

/// Criteria for the events of a stream of all calls.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events of this tool.
    pub name: Option<String>,
    /// Only events of this session.
    pub session: Option<String>,
    /// Only events of these tools.
    pub tools: Option<Arc<AllowList>>,
}

impl EventFilter {
    fn matches_all(&self) -> bool {
        self.name.is_none() && self.session.is_none() && self.tools.is_none()
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        self.name.as_deref().is_none_or(|name| *event.call.name == *name)
            && self.session.as_deref().is_none_or(|session| event.call.session.as_deref() == Some(session))
            && self.tools.as_deref().is_none_or(|tools| tools.has(&event.call.name))
    }
}

/// Streams the events of all calls after the position `after`, or only new events if it is `None`, without end. A
/// position in the future, for example after the database was recreated, counts as the current one. If events after the
/// position were deleted, the stream begins with the oldest stored event.
///
/// # Errors
/// Returns an error if the store fails before the stream begins.
pub async fn of_all(
    store: &Store,
    bus: &Bus,
    after: Option<i64>,
    filter: EventFilter,
    closing: CancellationToken,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static, StoreError> {
    let live = bus.subscribe_all();
    let now = store.last_pos().await?;
    let last = match after {
        Some(after) => after.max(store.forgotten_until().await?).min(now),
        None => now,
    };
    Ok(body(GlobalStream {
        bus: bus.clone(),
        rest_until: None,
        last,
        is_behind: last < now,
        is_live: last >= now,
        live,
        filter,
        store: store.clone(),
        heartbeat: heartbeat(),
        closing,
        ended: false,
    }))
}

struct GlobalStream {
    bus: Bus,
    rest_until: Option<Instant>,
    last: i64,
    /// Whether stored events are missing.
    is_behind: bool,
    /// Whether the stream has caught up once. Only then is it disconnected if it is too slow.
    is_live: bool,
    live: broadcast::Receiver<Arc<CommitFrames>>,
    filter: EventFilter,
    store: Store,
    heartbeat: Interval,
    closing: CancellationToken,
    ended: bool,
}

impl GlobalStream {
    /// Reads a page from the store; returns `None` if no event in it matches.
    async fn read_back(&mut self) -> Result<Piece, StoreError> {
        let (events, until) = self.store.events_after(self.last, PAGE).await?;
        self.is_behind = until > self.last;
        self.is_live |= !self.is_behind;
        self.last = until;
        let mut joined = BytesMut::new();
        for event in events.into_iter().filter(|event| self.filter.matches(event)) {
            joined.extend_from_slice(&FramedEvent::from(event).bytes());
        }
        Ok((!joined.is_empty()).then(|| joined.freeze()))
    }

    /// Ends the stream of a slow subscriber.
    fn cut_off(&mut self) -> Bytes {
        self.bus.count_disconnect();
        self.ended = true;
        frame::CUT_OFF
    }

    /// Returns the frames of new matching events of a commit.
    fn new_frames(&mut self, chunk: &CommitFrames) -> Piece {
        if chunk.last_pos <= self.last {
            return None;
        }
        let seen = std::mem::replace(&mut self.last, chunk.last_pos);
        let fresh = chunk.events.first().is_some_and(|event| event.event.pos > seen);
        let tenant = self.store.tenant();
        if fresh && self.filter.matches_all() && chunk.tenant.as_ref() == Some(tenant) {
            return Some(chunk.bytes());
        }
        let mut joined = BytesMut::new();
        let is_own = |event: &Event| event.call.tenant == *tenant && event.pos > seen;
        let is_match = |event: &&Arc<FramedEvent>| is_own(&event.event) && self.filter.matches(&event.event);
        for event in chunk.events.iter().filter(is_match) {
            joined.extend_from_slice(&event.bytes());
        }
        (!joined.is_empty()).then(|| joined.freeze())
    }
}

impl FrameSource for GlobalStream {
    async fn next(&mut self) -> Piece {
        loop {
            if self.ended {
                return None;
            }
            if let Some(until) = self.rest_until.take() {
                tokio::select! {
                    () = self.closing.cancelled() => return None,
                    () = tokio::time::sleep_until(until) => {}
                }
            }
            if self.is_behind && self.is_live && self.live.len() > COMMITS_BEHIND {
                return Some(self.cut_off());
            }
            if self.is_behind {
                let (throttle, readers) = (self.bus.throttle.clone(), self.bus.readers());
                let closing = self.closing.clone();
                let page = tokio::select! {
                    () = closing.cancelled() => return None,
                    page = throttle.page(readers, self.read_back()) => page,
                };
                match page {
                    Ok(Some(piece)) => return Some(piece),
                    Ok(None) => continue,
                    // A corrupt row ends the stream; other errors are retried.
                    Err(StoreError::Corrupt(_)) => return None,
                    Err(_) => {
                        self.rest_until = Some(Instant::now() + RETRY_DELAY);
                        return Some(frame::HEARTBEAT);
                    }
                }
            }
            tokio::select! {
                () = self.closing.cancelled() => return None,
                chunk = self.live.recv() => match chunk {
                    // Another node has committed in between, or the commit came without its events: read the store.
                    Ok(chunk) if chunk.first_pos > self.last + 1 || (chunk.events.is_empty() && chunk.last_pos > self.last) => {
                        self.is_behind = true;
                    }
                    Ok(chunk) => if let Some(piece) = self.new_frames(&chunk) {
                        self.rest_until = ReadThrottle::next(piece.len(), self.bus.readers());
                        return Some(piece);
                    },
                    Err(RecvError::Lagged(_)) => return Some(self.cut_off()),
                    Err(RecvError::Closed) => return None,
                },
                // Finds commits of other nodes.
                _ = self.heartbeat.tick() => {
                    self.is_behind = self.store.last_pos().await.is_ok_and(|pos| pos > self.last);
                    return Some(frame::HEARTBEAT);
                }
            }
        }
    }
}
