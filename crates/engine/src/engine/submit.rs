//! Submission of the calls of a request.
//!
//! [`submit`] joins the session and plans the calls; [`submit_keyed`] looks up idempotency keys before it does so.
//! [`plan`] checks whether the engine accepts calls, plans them and starts the rest of their path, with or without
//! acceptance.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::call::accept::{AcceptError, Acceptor, KeyLookup, KnownCalls};
use super::call::plan::Planner;
use super::call::state::Planned;
use super::detach::DetachOnDrop;
use super::in_flight::InFlightCalls;
use super::submission::{KeyedError, Submission, SubmitError, Wait};
use super::{Engine, Settings, schedule, tool_lookups};
use crate::access::Access;
use crate::arguments::MAX_INLINE_CHECK;
use crate::memory::{self, Footprint, MemoryPermit};
use toolpost_core::domain::call::Counted;
use toolpost_core::domain::{Session, SessionState};
use toolpost_telemetry::Context;

/// Maximum number of lookups of a key or session that concurrent requests create or delete.
const MAX_ATTEMPTS: usize = 5;
/// A session is recorded as used after this fraction of its idle time, so that not every call writes.
const IDLE_FRACTION: u64 = 4;

/// The result of a submission with idempotency keys.
#[derive(Debug)]
pub enum Keyed {
    /// All calls exist: the request is a repetition.
    Known {
        /// The batch of the calls, if the key of the request names one.
        batch_id: Option<Uuid>,
        /// The ids of the calls, in request order.
        calls: Vec<Uuid>,
    },
    /// At least one call is new and was accepted.
    New {
        /// The new calls.
        submitted: InFlightCalls,
        /// The ids of the new calls, in request order.
        ids: Vec<Uuid>,
        /// The existing calls, each with its index in the request.
        known: Vec<(usize, Uuid)>,
    },
}

/// Returns `true` if a submission can be planned without I/O and without a separate thread.
pub(super) fn is_immediate(access: &Access, submission: &Submission, request: &Footprint) -> bool {
    submission.session.is_none()
        && request.bytes <= MAX_INLINE_CHECK
        && !tool_lookups::has_unknown_tool(access, submission)
}

/// Joins the session of a submission and plans its calls. Large arguments are checked on a separate thread, because the
/// check would block other tasks.
pub(super) async fn submit(
    engine: &Arc<Engine>,
    access: &Access,
    mut submission: Box<Submission>,
    ids: Vec<Uuid>,
    request: Footprint,
) -> Result<InFlightCalls, SubmitError> {
    if submission.conversation.is_none() {
        join_session(engine, access, &mut submission).await?;
    }
    if tool_lookups::has_unknown_tool(access, &submission) {
        tool_lookups::look_up(engine, access).await;
    }
    if request.bytes <= MAX_INLINE_CHECK && !must_compile(access, &submission) {
        return plan(engine, access, submission, &ids, request);
    }
    let (engine, access) = (engine.clone(), access.clone());
    let context = Context::current();
    let planned = move || context.run(|| plan(&engine, &access, submission, &ids, request));
    tokio::task::spawn_blocking(planned).await.map_err(|_| SubmitError::Failed)?
}

/// Returns `true` if a tool of the submission must be compiled first, which can take long.
fn must_compile(access: &Access, submission: &Submission) -> bool {
    let snapshot = access.snapshot();
    submission.calls.iter().any(|call| snapshot.find(&call.name).is_some_and(|tool| tool.is_slow_to_compile()))
}

/// Submits the calls whose idempotency keys are new, and looks up the others. `ids` has one id for each call of the
/// submission.
pub(super) async fn submit_keyed(
    engine: &Arc<Engine>,
    access: &Access,
    submission: &Submission,
    ids: &[Uuid],
    mut footprint: Footprint,
) -> Result<Keyed, KeyedError> {
    let keys = KeyLookup { access, clock: &engine.clock };
    for _ in 0..MAX_ATTEMPTS {
        let known = match keys.find(submission).await? {
            KnownCalls::All { batch_id, calls } => return Ok(Keyed::Known { batch_id, calls }),
            KnownCalls::Some(known) => known,
        };
        let is_new = |index: usize| known.iter().all(|(known, _)| *known != index);
        let ids: Vec<Uuid> = ids.iter().enumerate().filter(|(index, _)| is_new(*index)).map(|(_, id)| *id).collect();
        let mut new = Box::new(Submission { known: known.clone(), ..submission.clone() });
        let mut index = 0..;
        new.calls.retain_mut(|call| {
            // The copy keeps its position in the request.
            call.index = index.next();
            call.index.is_some_and(|index| is_new(index as usize))
        });
        // The first attempt consumes the memory permit of the request; later attempts acquire it again.
        let request = Footprint { is_kept: true, held: footprint.held.take(), ..footprint };
        let mut submitted = submit(engine, access, new, ids.clone(), request).await?;
        match submitted.accepted().await {
            Ok(()) => return Ok(Keyed::New { submitted, ids, known }),
            // A concurrent request has claimed one of the keys. No call was accepted; look the keys up again.
            Err(AcceptError::Claimed) => {}
            Err(AcceptError::NotRecorded) => {
                return Err(KeyedError::NotRecorded { batch_id: submitted.batch_id, call: ids.first().copied() });
            }
        }
    }
    Err(SubmitError::Overloaded.into())
}

/// Plans calls and starts the rest of their path. Accepts either all of them or none.
pub(super) fn plan(
    engine: &Arc<Engine>,
    access: &Access,
    submission: Box<Submission>,
    ids: &[Uuid],
    mut request: Footprint,
) -> Result<InFlightCalls, SubmitError> {
    admit(engine, submission.calls.len(), &mut request)?;
    let batch_id = submission.batch_id.or_else(|| submission.is_batch.then(|| engine.ids.next()));
    let (mode, wait) = (submission.mode, submission.wait);
    let is_cancelled_with_caller = submission.cancel_on_disconnect;
    let (mut batch, calls, texts) = planner(engine).plan(access, submission, ids, batch_id);
    if batch.len() > 1 && batch.iter().any(|planned| planned.run.parks()) {
        let parked = CancellationToken::new();
        batch.iter_mut().for_each(|planned| planned.run.share_parking(parked.clone()));
    }
    let memory = hold(&mut batch, request, texts);
    let is_detached = matches!(wait, Wait::Accepted | Wait::For(_));
    if !is_detached && !is_cancelled_with_caller && !batch.iter().any(Planned::is_accepted_first) {
        let engine = engine.clone();
        let tasks = engine.tasks.clone();
        let work = async move {
            schedule::run_all(engine, batch, mode).await;
            drop(memory);
        };
        return Ok(InFlightCalls::new(batch_id, calls, DetachOnDrop::new(work, &tasks)));
    }
    let memory: Option<Arc<dyn Any + Send + Sync>> = memory.map(|memory| Arc::new(memory) as _);
    let mut guards = Vec::new();
    if is_cancelled_with_caller {
        guards.extend(batch.iter().map(|planned| planned.run.cancel().clone().drop_guard()));
    }
    for planned in batch.iter_mut().filter(|planned| planned.next.entry().is_some()) {
        memory.iter().for_each(|memory| planned.run.keep_permit(memory.clone()));
        if is_detached || wait == Wait::AsDeclared && planned.is_asynchronous() {
            planned.run.detach();
            let permit = engine.queue.clone().try_acquire_owned().map_err(|_| SubmitError::Overloaded)?;
            planned.run.keep_permit(Arc::new(permit));
        }
    }
    let (sender, accepted) = oneshot::channel();
    let (engine, tasks) = (engine.clone(), engine.tasks.clone());
    let work = async move {
        let batch = acceptor(&engine).accept(batch, sender).await;
        schedule::run_all(engine, batch, mode).await;
        drop(memory);
    };
    let mut submitted = InFlightCalls::new(batch_id, calls, DetachOnDrop::new(work, &tasks));
    (submitted.accepted, submitted.guards) = (Some(accepted), guards);
    Ok(submitted)
}

/// Releases memory that is not needed after planning. The rest is returned, or attached to all copies of the calls of a
/// large request. `texts` is the memory of arguments that were parsed from text.
fn hold(batch: &mut [Planned], request: Footprint, texts: Option<MemoryPermit>) -> Option<MemoryPermit> {
    let is_large = request.is_large() || texts.is_some();
    let has_copies = || request.is_kept || batch.iter().any(Planned::has_copies);
    let least = (request.is_large() && !has_copies()).then(|| request.least_kib_with(batch.len()));
    let mut held = request.held;
    if let Some(least) = least {
        memory::shrink(&mut held, least);
    }
    if let (Some(held), Some(texts)) = (&mut held, texts) {
        held.merge(texts);
    }
    if !is_large {
        return held;
    }
    let counted = Counted(held.map(|held| Arc::new(held) as _));
    batch.iter_mut().for_each(|planned| planned.run.amend(|call| call.keep_counted(counted.clone())));
    None
}

/// Acquires the memory of a request, unless the service drains or the backlog is too large.
fn admit(engine: &Engine, calls: usize, request: &mut Footprint) -> Result<(), SubmitError> {
    if engine.shutdown.drain.is_cancelled() {
        return Err(SubmitError::ShuttingDown);
    }
    if !engine.takes_calls() {
        return Err(SubmitError::Overloaded);
    }
    let kib = request.kib_with(calls);
    engine.memory.cover(&mut request.held, kib).map_err(|_| SubmitError::Overloaded)
}

fn planner(engine: &Engine) -> Planner<'_> {
    let Engine { memory, live, clock, sessions, settings, .. } = engine;
    let Settings { context, limits, node, .. } = settings;
    Planner { memory, context, limits, live, log: engine.log_parts(), clock, node, sessions }
}

fn acceptor(engine: &Engine) -> Acceptor<'_> {
    let Engine { journal, clock, ids, settings, .. } = engine;
    let Settings { store_timeout, callbacks_due, .. } = settings;
    Acceptor { journal, clock, ids, timeout: *store_timeout, callbacks_due }
}

/// Reads the session of a submission, or creates it on first use. An ended session becomes active again.
pub(super) async fn join_session(
    engine: &Engine,
    access: &Access,
    submission: &mut Submission,
) -> Result<(), SubmitError> {
    let Some(id) = submission.session.clone() else { return Ok(()) };
    let session = find_session(engine, access, &id).await?;
    if submission.callback_url.is_none() {
        submission.callback_url.clone_from(&session.callback_url);
    }
    submission.conversation = Some(Arc::new(session));
    Ok(())
}

/// Finds or creates a session. Resumes an ended one, and records that it is in use.
async fn find_session(engine: &Engine, access: &Access, id: &Arc<str>) -> Result<Session, SubmitError> {
    for _ in 0..MAX_ATTEMPTS {
        let now = engine.clock.now();
        let Some(mut session) = access.store().session(id).await? else {
            // A concurrent request can only create the same session.
            access.store().make_session(&Session::new(id.clone(), now)).await?;
            continue;
        };
        let idle_ms = engine.settings.session_idle_ms;
        let exists = if session.state != SessionState::Active {
            let is_resumed = access.store().resume_session(id, now).await?;
            (session.state, session.completion) = (SessionState::Active, None);
            is_resumed
        } else if idle_ms > 0 && now.millis_since(session.updated_at) >= idle_ms / IDLE_FRACTION {
            // Keeps the session from being deleted as idle while the call runs.
            access.store().touch_session(id, now).await?
        } else {
            true
        };
        if exists {
            return Ok(session);
        }
    }
    Err(SubmitError::Overloaded)
}
