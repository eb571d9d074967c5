//! Requests that come again: whatever has the same key is one request, and runs once (contract, section 3).

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

use super::call_body::Asked;
use super::problem::Problem;
use super::submit::submit;
use super::{AppState, answer, end, watch};
use crate::access::Access;
use crate::domain::{Call, CallRequest, Claim, Once, Time};
use crate::engine::{Footprint, NotAccepted, Seen, Submission, Wait};
use crate::events::{frame, stream as events};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest key, in characters.
const LONGEST_KEY: usize = 512;
/// How often keys are looked up that others take at the same moment.
const TRIES: usize = 5;

/// The request's `Idempotency-Key`, if it has one.
pub(super) fn of(headers: &HeaderMap, body: &Value) -> Result<Option<Once>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.chars().count() > LONGEST_KEY {
        let message = format!("header Idempotency-Key: must have 1 to {LONGEST_KEY} visible characters");
        return Err(Problem::field("", message));
    }
    Ok(Some(Once::of_request(key, body)))
}

/// A call of the request: one that is there already, or one that is new.
enum Found {
    Known(Uuid),
    New(Box<CallRequest>),
}

/// Runs what was never asked for before, and joins the rest.
pub(super) async fn execute(
    state: &AppState,
    access: &Access,
    asked: Asked,
    mut footprint: Footprint,
    wants_events: bool,
) -> Result<Response, Problem> {
    let submission = &asked.submission;
    if let Some(once) = submission.once
        && let Some(claim) = claim_of(access, state.clock.now(), once, "").await?
    {
        return replay(state, access, &asked, claim.batch_id, claim.calls, wants_events).await;
    }
    for _ in 0..TRIES {
        // What it holds goes with the first try; one that comes after it has to take it anew.
        let held = footprint.held.take();
        let request = Footprint { is_kept: true, held, ..footprint };
        let mut found = Vec::with_capacity(submission.calls.len());
        for (index, request) in submission.calls.iter().enumerate() {
            let claim = match request.once {
                Some(once) => claim_of(access, state.clock.now(), once, &asked.id_places.of(index)).await?,
                None => None,
            };
            let known = claim.and_then(|claim| claim.calls.first().copied());
            let index = u32::try_from(index).ok();
            found.push(
                known.map_or_else(|| Found::New(Box::new(CallRequest { index, ..request.clone() })), Found::Known),
            );
        }
        if let Some(response) = run_new(state, access, &asked, found, request, wants_events).await? {
            return Ok(response);
        }
        // Somebody else has taken a key of theirs meanwhile.
        if let Some(once) = submission.once
            && let Some(claim) = claim_of(access, state.clock.now(), once, "").await?
        {
            return replay(state, access, &asked, claim.batch_id, claim.calls, wants_events).await;
        }
    }
    Err(Problem::overloaded())
}

/// Who has the key, if anybody has. The same key for something else is refused.
async fn claim_of(access: &Access, now: Time, once: Once, pointer: &str) -> Result<Option<Claim>, Problem> {
    match access.store().claim(&once.key, now).await? {
        Some(claim) if claim.once.fingerprint != once.fingerprint => Err(Problem::key_reused(pointer)),
        Some(claim) if !may_replay(access, &claim).await? => Err(Problem::key_reused(pointer)),
        claim => Ok(claim),
    }
}

/// Whoever has another allow-list gets no outcome of a tool that is not on it.
async fn may_replay(access: &Access, claim: &Claim) -> Result<bool, Problem> {
    if access.allowed().is_none() {
        return Ok(true);
    }
    let calls = access.store().calls_of(&claim.calls).await?;
    Ok(calls.iter().all(|call| access.may_reach(call)))
}

/// `None` if a key was taken meanwhile; then nothing was accepted.
async fn run_new(
    state: &AppState,
    access: &Access,
    asked: &Asked,
    found: Vec<Found>,
    request: Footprint,
    wants_events: bool,
) -> Result<Option<Response>, Problem> {
    let submission = &asked.submission;
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for (place, found) in found.into_iter().enumerate() {
        match found {
            Found::Known(id) => known.push((place, id)),
            Found::New(request) => new.push(*request),
        }
    }
    if new.is_empty() {
        let known = known.into_iter().map(|(_, id)| id).collect();
        return replay(state, access, asked, None, known, wants_events).await.map(Some);
    }
    let ids = state.engine.ids(new.len());
    let reader = wants_events.then(|| state.bus.subscribe(ids.clone()));
    let mut submitted =
        submit(state, access, submission.with_calls(new, known.clone()).into(), ids.clone(), request).await?;
    let batch_id = submitted.batch_id;
    match submitted.accepted().await {
        Ok(()) => {}
        Err(NotAccepted::Claimed) => return Ok(None),
        Err(NotAccepted::NotRecorded(not)) => {
            return Err(answer::not_recorded(not.accepted, batch_id, ids.first().copied()));
        }
    }
    if let Some(reader) = reader {
        if known.is_empty() {
            return Ok(Some(watch::stream(state.clone(), access.clone(), reader, ids, submitted, asked.said.clone())));
        }
        let mut all = ids;
        known.into_iter().for_each(|(place, id)| all.insert(place, id));
        let (_, guards) = submitted.detach();
        return replay_events(state, access, asked, batch_id, all, guards).await.map(Some);
    }
    let first = ids.first().copied();
    // All at once: nobody waits longer because there are several.
    let joined = try_join_all(known.iter().map(|(_, id)| join(state, access, *id, submission.wait)));
    let (seen, joined) = tokio::join!(submitted.seen(submission.wait), joined);
    let mut all = seen.map_err(|not| answer::not_recorded(not.accepted, batch_id, first))?;
    for ((place, _), call) in known.into_iter().zip(joined?) {
        all.insert(place, Seen::Ended(Arc::new(call)));
    }
    answer::seen(access, batch_id, all, asked.said.as_deref()).await.map(Some)
}

/// The outcome of calls that are there already; those that still run are joined.
async fn replay(
    state: &AppState,
    access: &Access,
    asked: &Asked,
    batch_id: Option<Uuid>,
    ids: Vec<Uuid>,
    wants_events: bool,
) -> Result<Response, Problem> {
    let Submission { is_batch, wait, .. } = *asked.submission;
    let mut response = if wants_events {
        replay_events(state, access, asked, batch_id, ids, Vec::new()).await?
    } else {
        let calls = try_join_all(ids.iter().map(|id| join(state, access, *id, wait))).await?;
        let batch_id = batch_id.or(calls.first().filter(|_| is_batch).and_then(|call| call.batch_id));
        let calls: Vec<Arc<Call>> = calls.into_iter().map(Arc::new).collect();
        answer::as_they_are(batch_id, is_batch, &calls, asked.said.as_deref())
    };
    let replayed = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
    Ok(response)
}

/// Waits for a call as long as whoever asked for it first would have.
async fn join(state: &AppState, access: &Access, id: Uuid, wait: Wait) -> Result<Call, Problem> {
    let longest = match wait {
        Wait::Result => None,
        Wait::Accepted => Some(Duration::ZERO),
        Wait::For(longest) => Some(longest),
        Wait::AsDeclared => {
            let call = end::wait(state, access, id, Some(Duration::ZERO)).await?;
            let snapshot = access.snapshot();
            let is_async = snapshot.get(&call.name).is_some_and(|entry| entry.definition.asynchronous);
            if call.status.is_terminal() || is_async {
                return Ok(call);
            }
            None
        }
    };
    end::wait(state, access, id, longest).await
}

/// Each call's events from its beginning, one call after the other, and then the answer.
async fn replay_events(
    state: &AppState,
    access: &Access,
    asked: &Asked,
    batch_id: Option<Uuid>,
    ids: Vec<Uuid>,
    guards: Vec<DropGuard>,
) -> Result<Response, Problem> {
    let mut streams = Vec::with_capacity(ids.len());
    for id in &ids {
        let found = events::of_call(access.store(), &state.bus, *id, 0, state.closing.clone()).await?;
        streams.push(found.ok_or_else(Problem::internal)?);
    }
    let (access, said) = (access.clone(), asked.said.clone());
    let last = stream::once(async move {
        let calls = access.store().calls_of(&ids).await.unwrap_or_default();
        let calls: Vec<&Call> = ids.iter().filter_map(|id| calls.iter().find(|call| call.id == *id)).collect();
        if calls.iter().any(|call| !call.status.is_terminal()) {
            // The service stops; the reader comes again.
            return Ok(frame::CUT_OFF);
        }
        guards.into_iter().for_each(|guard| drop(guard.disarm()));
        let pos = access.store().last_pos().await.unwrap_or_default();
        Ok::<_, Infallible>(watch::batch(pos, batch_id, &calls, said.as_deref()))
    });
    Ok(watch::sse(stream::iter(streams).flatten().chain(last)))
}
