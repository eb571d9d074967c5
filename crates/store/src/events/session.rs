//! The stream of a session: the past and live events of its calls, and the state of the session.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Bus;
use super::frame;
use super::stream::{EventFilter, FrameSource, body, heartbeat, of_all};
use crate::store::signals::{Hint, HintReceiver, SessionKey};
use crate::store::{Store, StoreError};
use toolpost_core::domain::event::EventKind;
use toolpost_core::domain::{AllowList, Completion, Cursor, Session, SessionState, Time};

/// Number of positions of a session's history that are read at once.
const PAGE: usize = 64;

/// Data of `session`: the state of the session. It is the first event of every session stream and is repeated after
/// each change. Its `id:` is the position up to which the stream has sent events of calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionEvent)]
pub struct SessionEvent<'a> {
    /// The id of the session.
    session: &'a str,
    /// The state; `null` after the session was deleted.
    state: Option<SessionState>,
    /// The session whose task this session was created for.
    parent: Option<&'a str>,
    /// How the task of the session has ended.
    completion: Option<&'a Completion>,
    /// The time of the last change.
    at: Time,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>;

/// Streams the events of a session's calls after `after`, then live events without end, restricted to `tools`.
///
/// # Errors
/// Returns an error if the store fails before the stream begins.
pub async fn of_session(
    store: &Store,
    bus: &Bus,
    session: Session,
    tools: Option<Arc<AllowList>>,
    after: Cursor,
    closing: CancellationToken,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static, StoreError> {
    let changes = store.signals().sessions();
    let mut until = store.newest().await?;
    let positions: VecDeque<(i64, Uuid)> = store.session_positions(&session, &after, &until).await?.into();
    let filter = EventFilter { session: Some(session.id.to_string()), tools, ..EventFilter::default() };
    let history = History { positions, seen: after.clone(), store: store.clone(), filter: filter.clone() };
    let history =
        stream::unfold(history, |mut history| async move { history.page().await.map(|page| (Ok(page), history)) });
    let (bus, live_store, live_closing) = (bus.clone(), store.clone(), closing.clone());
    until.merge(&after);
    // Events committed while the history is sent are read from the store here.
    let live = stream::once(async move {
        match of_all(&live_store, &bus, Some(until), filter, live_closing).await {
            Ok(live) => live.boxed(),
            Err(_) => stream::once(std::future::ready(Ok(frame::CUT_OFF))).boxed(),
        }
    });
    let source = SessionStream {
        calls: Box::pin(history.chain(live.flatten())),
        session,
        changes,
        store: store.clone(),
        heartbeat: heartbeat(),
        last: after,
        is_over: false,
    };
    let opening = vec![frame::OPENING, source.session_frame(true)];
    Ok(body(opening, source, closing))
}

/// The past events, in pages.
struct History {
    positions: VecDeque<(i64, Uuid)>,
    /// What the client has received or skipped.
    seen: Cursor,
    store: Store,
    filter: EventFilter,
}

impl History {
    /// Returns the next page. If the store fails, the client must resume, so the page ends the stream.
    async fn page(&mut self) -> Option<Bytes> {
        let count = self.positions.len().min(PAGE);
        let groups = self.positions.iter().take(count).map(|(_, id)| vec![*id]);
        let Ok(count) = self.store.fitting_calls(groups).await else { return Some(frame::CUT_OFF) };
        let page: Vec<(i64, Uuid)> = self.positions.drain(..count).collect();
        let positions: BTreeSet<i64> = page.iter().map(|(pos, _)| *pos).collect();
        if positions.is_empty() {
            return None;
        }
        let ids: BTreeSet<Uuid> = page.into_iter().map(|(_, id)| id).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let Ok(events) = self.store.events_of_calls(&ids).await else { return Some(frame::CUT_OFF) };
        let sent = events.into_iter().filter(|event| positions.contains(&event.pos) && self.filter.matches(event));
        Some(frame::join(frame::of_events(sent, &mut self.seen).map(|(_, frame)| frame)))
    }
}

/// The state of an open session stream.
struct SessionStream {
    calls: Frames,
    session: Session,
    changes: HintReceiver<SessionKey>,
    store: Store,
    heartbeat: Interval,
    /// The id of the last event of a call that was sent.
    last: Cursor,
    is_over: bool,
}

impl FrameSource for SessionStream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            let has_changed = tokio::select! {
                piece = self.calls.next() => {
                    let Ok(piece) = piece?;
                    self.is_over = piece == frame::CUT_OFF;
                    if let Some(last) = frame::last_id(&piece) {
                        self.last = last;
                    }
                    return Some(piece);
                }
                changed = self.changes.recv() => match changed {
                    Hint::Of((tenant, id)) => tenant == *self.store.tenant() && id == self.session.id,
                    Hint::Any => true,
                },
                // Finds changes whose signal was lost.
                _ = self.heartbeat.tick() => true,
            };
            if has_changed && let Ok(now) = self.store.session(&self.session.id).await {
                match now {
                    Some(now) if (now.state, &now.completion) == (self.session.state, &self.session.completion) => {}
                    Some(now) => {
                        self.session = now;
                        return Some(self.session_frame(true));
                    }
                    None => {
                        self.is_over = true;
                        return Some(self.session_frame(false));
                    }
                }
            }
        }
        None
    }
}

impl SessionStream {
    fn session_frame(&self, is_there: bool) -> Bytes {
        let session = &self.session;
        let event = SessionEvent {
            session: &session.id,
            state: is_there.then_some(session.state),
            parent: session.parent.as_deref(),
            completion: session.completion.as_ref(),
            at: session.updated_at,
        };
        frame::frame(&self.last, EventKind::Session.as_str(), &serde_json::to_string(&event).unwrap_or_default())
    }
}
