//! Requests with idempotency keys: calls that exist are joined or replayed (`docs/reference/contract.md`, section 3).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use tokio_util::sync::DropGuard;
use uuid::Uuid;

use super::call_body::{IdLocation, ParsedBody};
use super::{AppState, HttpResult, Problem, call_response, event_response, wait};
use crate::access::Access;
use crate::domain::{Call, Cursor, IdempotencyKey, Phase};
use crate::engine::{Keyed, KeyedError, Submission, Wait, WaitOutcome};
use crate::events::{frame, stream as events};
use crate::memory::Footprint;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum length of a key, in characters.
const MAX_KEY_CHARS: usize = 512;

/// Returns the request's `Idempotency-Key`, if it has one.
pub(super) fn read_key(headers: &HeaderMap, body: &Value) -> HttpResult<Option<IdempotencyKey>> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARS {
        let message = format!("header Idempotency-Key: must have 1 to {MAX_KEY_CHARS} visible characters");
        return Err(Problem::field("", message));
    }
    Ok(Some(IdempotencyKey::of_request(key, body)))
}

/// Runs calls whose idempotency keys are new, and joins the others.
pub(super) async fn execute(
    state: &AppState,
    access: &Access,
    parsed: ParsedBody,
    footprint: Footprint,
    wants_events: bool,
) -> HttpResult {
    let submission = &parsed.submission;
    let ids = state.engine.ids(submission.calls.len());
    // Subscribed before the calls are accepted, so that no event is missed.
    let reader = wants_events.then(|| state.bus.subscribe(ids.clone()));
    let keyed = state.engine.submit_keyed(access, submission, &ids, footprint).await;
    let (submitted, ids, known) = match keyed.map_err(|error| problem_of(error, &parsed.id_location))? {
        Keyed::Known { batch_id, calls } => return replay(state, access, &parsed, batch_id, calls, wants_events).await,
        Keyed::New { submitted, ids, known } => (submitted, ids, known),
    };
    let batch_id = submitted.batch_id;
    if let Some(reader) = reader {
        if known.is_empty() {
            return Ok(event_response::stream(
                state.clone(),
                access.clone(),
                reader,
                ids,
                submitted,
                parsed.message.clone(),
            ));
        }
        let mut all = ids;
        known.into_iter().for_each(|(index, id)| all.insert(index, id));
        let (_, guards) = submitted.detach();
        return replay_events(state, access, &parsed, batch_id, all, guards).await;
    }
    let first = ids.first().copied();
    // The calls are waited for together, so that several of them take no longer than one.
    let joined = try_join_all(known.iter().map(|(_, id)| join(state, access, *id, submission.wait)));
    let (seen, joined) = tokio::join!(submitted.wait_for(submission.wait), joined);
    let mut all = seen.map_err(|not| call_response::not_recorded(not.accepted, batch_id, first))?;
    for ((index, _), call) in known.into_iter().zip(joined?) {
        all.insert(index, WaitOutcome::Settled(Arc::new(call)));
    }
    call_response::seen(access, batch_id, all, parsed.message.as_deref()).await
}

pub(super) fn problem_of(error: KeyedError, id_location: &IdLocation) -> Problem {
    match error {
        KeyedError::Reused { call } => {
            Problem::key_reused(&call.map(|index| id_location.pointer_to(index)).unwrap_or_default())
        }
        KeyedError::NotRecorded { batch_id, call } => call_response::not_recorded(false, batch_id, call),
        KeyedError::Refused(refusal) => refusal.into(),
    }
}

/// Returns the outcome of existing calls, and joins calls that still run.
async fn replay(
    state: &AppState,
    access: &Access,
    parsed: &ParsedBody,
    batch_id: Option<Uuid>,
    ids: Vec<Uuid>,
    wants_events: bool,
) -> HttpResult {
    let Submission { is_batch, wait, .. } = *parsed.submission;
    let mut response = if wants_events {
        replay_events(state, access, parsed, batch_id, ids, Vec::new()).await?
    } else {
        let calls = try_join_all(ids.iter().map(|id| join(state, access, *id, wait))).await?;
        let batch_id = batch_id.or(calls.first().filter(|_| is_batch).and_then(|call| call.batch_id));
        let calls: Vec<Arc<Call>> = calls.into_iter().map(Arc::new).collect();
        call_response::as_they_are(batch_id, is_batch, &calls, parsed.message.as_deref())
    };
    mark_replayed(&mut response);
    Ok(response)
}

/// Adds the header that says that the request repeats an earlier one.
pub(super) fn mark_replayed(response: &mut Response) {
    let replayed = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
}

/// Waits for an existing call as this request asks to wait.
async fn join(state: &AppState, access: &Access, id: Uuid, wait: Wait) -> HttpResult<Call> {
    let longest = match wait {
        Wait::Result => None,
        Wait::Accepted => Some(Duration::ZERO),
        Wait::For(longest) => Some(longest),
        Wait::AsDeclared => {
            let call = wait::wait(state, access, id, Some(Duration::ZERO)).await?;
            let snapshot = access.snapshot();
            let is_async = snapshot.get(&call.name).is_some_and(|tool| tool.definition().asynchronous);
            if call.status.is_terminal() || is_async || call.phase == Phase::Approval {
                return Ok(call);
            }
            None
        }
    };
    wait::wait(state, access, id, longest).await
}

/// Streams all events of each call, one call after the other, followed by the `batch` event.
async fn replay_events(
    state: &AppState,
    access: &Access,
    parsed: &ParsedBody,
    batch_id: Option<Uuid>,
    ids: Vec<Uuid>,
    guards: Vec<DropGuard>,
) -> HttpResult {
    let mut streams = Vec::with_capacity(ids.len());
    for id in &ids {
        let found = events::of_call(access.store(), &state.bus, *id, &Cursor::default(), state.closing.clone()).await?;
        streams.push(found.ok_or_else(Problem::internal)?);
    }
    let (access, continuation) = (access.clone(), parsed.message.clone());
    let last = stream::once(async move {
        let calls = access.store().calls_of(&ids).await.unwrap_or_default();
        let calls: Vec<&Call> = ids.iter().filter_map(|id| calls.iter().find(|call| call.id == *id)).collect();
        if calls.iter().any(|call| !call.status.is_terminal()) {
            // The service is shutting down, so the client must reconnect.
            return Ok(frame::CUT_OFF);
        }
        guards.into_iter().for_each(|guard| drop(guard.disarm()));
        let pos = access.store().newest().await.unwrap_or_default();
        Ok::<_, Infallible>(event_response::batch(&pos, batch_id, &calls, continuation.as_deref()))
    });
    Ok(event_response::sse(stream::iter(streams).flatten().chain(last)))
}
