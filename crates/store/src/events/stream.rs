//! Resumable streams: subscribe first, read stored events, then switch to live events and drop duplicates.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::bus::{Bus, COMMITS_BEHIND, CallSubscription};
use super::follow::{Follower, Step};
use super::frame::{self, CommitFrames, FramedEvent};
use super::throttle::ReadThrottle;
use crate::store::{Store, StoreError};
use toolpost_core::domain::event::{Event, EventKind, Stage};
use toolpost_core::domain::{AllowList, Cursor, Shard};

/// Interval of heartbeats in an idle stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Number of commits that are read from the store at once.
const PAGE: u32 = 16;

/// Delay before a failed read from the store is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A source of the frames of one SSE body.
pub(super) trait FrameSource: Send + 'static {
    /// Returns the next frames; `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Streams `opening`, then the frames of `source` until `closing` is cancelled.
pub(super) fn body(
    opening: Vec<Bytes>,
    source: impl FrameSource,
    closing: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let rest = stream::unfold((source, closing), |(mut source, closing)| async move {
        let frames = tokio::select! {
            () = closing.cancelled() => None,
            frames = source.next() => frames,
        };
        Some((Ok(frames?), (source, closing)))
    });
    stream::iter(opening.into_iter().map(Ok)).chain(rest)
}

pub(super) fn heartbeat() -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Streams the events of one call after `after` until its end. Returns `None` if the call does not exist.
///
/// # Errors
/// Returns an error if the store fails before the stream begins.
pub async fn of_call(
    store: &Store,
    bus: &Bus,
    id: Uuid,
    after: &Cursor,
    closing: CancellationToken,
) -> Result<Option<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static>, StoreError> {
    let (reader, gaps) = (bus.subscribe(vec![id]), bus.gaps());
    let mut follower = Follower::after(after.position_in(Shard::of_call(id)));
    let Some(stored) = follower.read_back(store, id).await? else { return Ok(None) };
    let ended = stored.has_ended;
    let mut opening = vec![frame::OPENING];
    opening.extend(stored.frames(&bus.published()));
    let (store, bus, heartbeat) = (store.clone(), bus.clone(), heartbeat());
    let source = CallStream { id, follower, ended, is_behind: false, reader, gaps, store, bus, heartbeat };
    Ok(Some(body(opening, source, closing)))
}

struct CallStream {
    id: Uuid,
    follower: Follower,
    ended: bool,
    /// Whether events of another node are missing.
    is_behind: bool,
    reader: CallSubscription,
    gaps: watch::Receiver<u64>,
    store: Store,
    bus: Bus,
    heartbeat: Interval,
}

impl CallStream {
    /// Returns the new events from the store; `None` if the call was deleted.
    async fn read_back(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some(known) = self.follower.read_back(&self.store, self.id).await? else { return Ok(None) };
        self.ended |= known.has_ended;
        Ok(Some(frame::join(known.frames(&self.bus.published()))))
    }
}

impl FrameSource for CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            if self.is_behind {
                // Fills the gap. The event after it was not sent and is among the events that are read. Boxed, because a
                // stream would otherwise always have the memory for reading.
                match Box::pin(self.read_back()).await {
                    Ok(Some(frames)) => {
                        self.is_behind = false;
                        if !frames.is_empty() {
                            return Some(frames);
                        }
                        continue;
                    }
                    // The call was deleted, or its row is corrupt.
                    Ok(None) | Err(StoreError::Corrupt(_)) => return None,
                    Err(_) => {
                        tokio::time::sleep(RETRY_DELAY).await;
                        return Some(frame::HEARTBEAT);
                    }
                }
            }
            tokio::select! {
                event = self.reader.events.recv() => {
                    let Some(event) = event else {
                        self.ended = true;
                        return Some(frame::CUT_OFF);
                    };
                    let is_last = event.event.stage == Stage::Result;
                    match self.follower.step(&event.event) {
                        Step::Next => {
                            self.ended = is_last;
                            return Some(event.bytes());
                        }
                        Step::Gap => self.is_behind = true,
                        // The end was sent from the store already.
                        Step::SeenWorker if is_last => return None,
                        Step::SeenWorker => {}
                    }
                }
                // The bus outlives its subscribers.
                _ = self.gaps.changed() => self.is_behind = true,
                // Finds events of other nodes that were not published here.
                _ = self.heartbeat.tick() => return match Box::pin(self.read_back()).await {
                    Ok(Some(frames)) if !frames.is_empty() => Some(frames),
                    Ok(None) => None,
                    Ok(Some(_)) | Err(_) => Some(frame::HEARTBEAT),
                },
            }
        }
        None
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
    /// Only `status` events of calls with approvals.
    pub approvals_only: bool,
}

impl EventFilter {
    fn matches_all(&self) -> bool {
        self.name.is_none() && self.session.is_none() && self.tools.is_none() && !self.approvals_only
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        self.name.as_deref().is_none_or(|name| *event.call.name == *name)
            && self.session.as_deref().is_none_or(|session| event.call.session.as_deref() == Some(session))
            && self.tools.as_deref().is_none_or(|tools| tools.has(&event.call.name))
            && (!self.approvals_only || event.call.approval.is_some() && event.kind() == EventKind::Status)
    }
}

/// Streams the events of all calls after `after`, or only new events if it is `None`, without end. A position in the
/// future, for example after the database was recreated, counts as the current one. If events after the
/// position were deleted, the stream begins with the oldest stored event.
///
/// # Errors
/// Returns an error if the store fails before the stream begins.
pub async fn of_all(
    store: &Store,
    bus: &Bus,
    after: Option<Cursor>,
    filter: EventFilter,
    closing: CancellationToken,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static, StoreError> {
    let (live, gaps) = (bus.subscribe_all(), bus.gaps());
    let now = store.newest().await?;
    let last = match after {
        Some(mut after) => {
            after.merge(&store.forgotten_until().await?);
            after.common(&now)
        }
        None => now.clone(),
    };
    let is_behind = last != now;
    let source = GlobalStream {
        bus: bus.clone(),
        rest_until: None,
        last,
        is_behind,
        is_live: !is_behind,
        live,
        gaps,
        filter,
        store: store.clone(),
        heartbeat: heartbeat(),
        ended: false,
    };
    Ok(body(vec![frame::OPENING], source, closing))
}

struct GlobalStream {
    bus: Bus,
    rest_until: Option<Instant>,
    /// What the client has received or skipped.
    last: Cursor,
    /// Whether stored events are missing.
    is_behind: bool,
    /// Whether the stream has caught up once. Only then is it disconnected if it is too slow.
    is_live: bool,
    live: broadcast::Receiver<Arc<CommitFrames>>,
    gaps: watch::Receiver<u64>,
    filter: EventFilter,
    store: Store,
    heartbeat: Interval,
    ended: bool,
}

impl GlobalStream {
    /// Reads a page from the store; returns no frames if no event in it matches.
    async fn read_back(&mut self) -> Result<Bytes, StoreError> {
        let (events, until) = self.store.events_after(&self.last, PAGE).await?;
        self.is_behind = until != self.last;
        self.is_live |= !self.is_behind;
        let matching = events.into_iter().filter(|event| self.filter.matches(event));
        let frames = frame::join(frame::of_events(matching, &mut self.last).map(|(_, frame)| frame));
        self.last = until;
        Ok(frames)
    }

    /// Returns the next frames from the store; `None` ends the stream.
    async fn next_stored(&mut self) -> Option<Bytes> {
        let (throttle, readers) = (self.bus.throttle.clone(), self.bus.readers());
        match throttle.page(readers, self.read_back()).await {
            Ok(frames) => Some(frames),
            // A corrupt row ends the stream; other errors are retried.
            Err(StoreError::Corrupt(_)) => None,
            Err(_) => {
                self.rest_until = Some(Instant::now() + RETRY_DELAY);
                Some(frame::HEARTBEAT)
            }
        }
    }

    /// Returns the next live frames; `None` ends the stream.
    async fn next_live(&mut self) -> Option<Bytes> {
        tokio::select! {
            chunk = self.live.recv() => match chunk {
                // Another node has committed in between, or the commit came without its events: read the store.
                Ok(chunk) if self.misses_events(&chunk) => {
                    self.is_behind = true;
                    Some(Bytes::new())
                }
                Ok(chunk) => {
                    let frames = self.new_frames(&chunk);
                    self.rest_until = ReadThrottle::next(frames.len(), self.bus.readers());
                    Some(frames)
                }
                Err(RecvError::Lagged(_)) => Some(self.cut_off()),
                Err(RecvError::Closed) => None,
            },
            // The bus outlives its subscribers.
            _ = self.gaps.changed() => {
                // Usually nothing was missed, and reading the store would cost much with many subscribers.
                self.is_behind = !self.last.includes(&self.bus.published());
                Some(Bytes::new())
            }
            // Finds commits of other nodes that were not published here.
            _ = self.heartbeat.tick() => {
                self.is_behind = Box::pin(self.store.newest()).await.is_ok_and(|newest| !self.last.includes(&newest));
                Some(frame::HEARTBEAT)
            }
        }
    }

    /// Returns `true` if events before this commit, or its own, must be read from the store.
    fn misses_events(&self, chunk: &CommitFrames) -> bool {
        let last = self.last.position_in(Shard::of_position(chunk.last_pos));
        chunk.first_pos > last + 1 || (chunk.events.is_empty() && chunk.last_pos > last)
    }

    /// Ends the stream of a slow subscriber.
    fn cut_off(&mut self) -> Bytes {
        self.bus.count_disconnect();
        self.ended = true;
        frame::CUT_OFF
    }

    /// Returns the frames of new matching events of a commit.
    fn new_frames(&mut self, chunk: &CommitFrames) -> Bytes {
        if self.last.covers(chunk.last_pos) {
            return Bytes::new();
        }
        let tenant = self.store.tenant();
        let frames = if self.filter.matches_all() && chunk.tenant.as_ref() == Some(tenant) && self.last == *chunk.seen {
            chunk.bytes()
        } else {
            let is_own = |event: &Event| event.call.tenant == *tenant && !self.last.covers(event.pos);
            let is_match = |event: &&Arc<FramedEvent>| is_own(&event.event) && self.filter.matches(&event.event);
            frame::join(chunk.events.iter().filter(is_match).map(|event| event.bytes_after(&self.last)))
        };
        self.last.advance(chunk.last_pos);
        frames
    }
}

impl FrameSource for GlobalStream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            if let Some(until) = self.rest_until.take() {
                tokio::time::sleep_until(until).await;
            }
            if self.is_behind && self.is_live && self.live.len() > COMMITS_BEHIND {
                return Some(self.cut_off());
            }
            // Boxed, because a stream rarely reads from the store and would always have the memory for it.
            let frames = if self.is_behind { Box::pin(self.next_stored()).await? } else { self.next_live().await? };
            if !frames.is_empty() {
                return Some(frames);
            }
        }
        None
    }
}
