//! The state of a call between the steps.
//!
//! [`Ongoing`] is the part that every step uses. [`Planned`] and [`Executed`] wrap it before the third and the last
//! step; [`RunExit`] is the way in which a call ends.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::inject::ExecutorInputs;
use super::interrupt::Interrupt;
use super::recorder::Recorder;
use crate::access::Access;
use crate::dispatch::QueuedSlot;
use crate::domain::event::{EventKind, Reported};
use crate::domain::limits::ServerLimits;
use crate::domain::{
    Call, Code, Failure, KeyClaim, Limits, LimitsSpec, Naming, Outcome, Phase, RequiredBy, Session, Status, Time,
    Vendor,
};
use crate::engine::call_order::OrderGuard;
use crate::engine::context::ContextObjects;
use crate::engine::live::{CallEntry, CallHandle, LiveCalls, accepts_posted_result};
use crate::engine::offers::{OfferWatch, Offers};
use crate::engine::sessions::{SessionCall, SessionCalls};
use crate::events::render;
use crate::executor::ResultSlot;
use crate::executor::emitter::{self, ReportReceiver};
use crate::executor::instances::CallInstanceGuard;
use crate::fault::assert_in_tests;
use crate::registry::Entry;
use crate::store::journal::Change;
use crate::telemetry::Context;

/// Default time that a call waits for a worker, in milliseconds.
const WORKER_QUEUE_TIMEOUT_MS: u64 = 60_000;

/// A call that has not ended: the data that every step uses.
pub(in crate::engine) struct Ongoing {
    /// The caller of the call.
    pub access: Access,
    pub call: Call,
    pub recorder: Recorder,
    pub handle: CallHandle,
    pub reports: ReportReceiver,
    /// Makes the call reachable for cancellations and reports until it is dropped.
    pub registration: Option<CallEntry<CallHandle>>,
    pub begin: StartMode,
    /// `true` if the call was committed before it ran, so that a repeated request finds it.
    pub is_accepted_first: bool,
    /// `true` if the call is detached: it has a permit of the queue, and a drain leaves it to the next start.
    pub is_queued: bool,
    pub traceparent: Option<Arc<str>>,
    /// The log context of the request.
    pub context: Context,
    /// The names under which the caller sees tools.
    pub naming: Naming,
    /// The session, as it was when the call was submitted.
    pub conversation: Option<Arc<Session>>,
    /// The entry of the call in its session.
    pub session_guard: Option<CallEntry<SessionCall>>,
    /// The inputs that only the executor receives. Empty until the call is prepared.
    pub inputs: ExecutorInputs,
    /// The guard of the call's turn among the calls of one stream.
    pub turn: Option<OrderGuard>,
    /// Ends the tool's instance of this call when dropped.
    pub instance_guard: Option<CallInstanceGuard>,
    /// `true` if the call was accepted by another run of the service, or by another node.
    pub is_resumed: bool,
    /// Of an adopted call: how many nodes were lost while they worked on it.
    pub losses: Option<i16>,
    /// Wakes the call when its offer to workers may have changed, from the first offer on.
    pub offer: Option<(Arc<OfferWatch>, CallEntry<Arc<OfferWatch>>)>,
    /// How long the current attempt has run before a restart, in milliseconds, if a worker has it.
    pub runs_since_ms: Option<u64>,
    /// Fires when a call of the same request waits for an approval.
    pub parked: Option<CancellationToken>,
    /// Permits held until the call is settled: memory, and the permit of a detached call.
    pub permits: Vec<Arc<dyn Any + Send + Sync>>,
}

/// A planned call.
pub(in crate::engine) struct Planned {
    pub ongoing: Box<Ongoing>,
    /// The tool to run, or the failure to end with.
    pub next: Result<Arc<Entry>, Box<Failure>>,
    /// The tool of a call that was interrupted, if it may have kept a posted result.
    pub interrupted: Option<Arc<Entry>>,
    /// The idempotency keys, which are claimed in the accepting commit.
    pub claims: Vec<KeyClaim>,
    /// The parts of the request that are needed when its arguments are complete.
    pub deferred: Option<Box<DeferredRequest>>,
    /// The place in the queue, if one was acquired in advance.
    pub place: Option<QueuedSlot>,
}

/// The parts of a request that are used only after its streamed arguments are complete.
#[derive(Default)]
pub(in crate::engine) struct DeferredRequest {
    pub vendor: Option<Vendor>,
    pub limits: LimitsSpec,
    pub context: ContextObjects,
}

/// The point at which the steps begin with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum StartMode {
    /// A new call, from its beginning.
    Start,
    /// A stored call whose last attempt was lost, or that waited for its next attempt. It runs again.
    Rerun,
    /// A call that is worked on outside this process. Only its result is awaited.
    AwaitResult,
    /// A call whose attempt was lost and must not be repeated. Only a result that is posted already counts.
    Lost,
}

impl Planned {
    /// Creates a planned call without claims, session or permits.
    pub fn new(access: Access, call: Call, next: Result<Arc<Entry>, Box<Failure>>, recorder: Recorder) -> Self {
        let (emitter, reports) = emitter::channel();
        let has_token = next.as_ref().is_ok_and(|entry| entry.definition.has_token());
        let handle = CallHandle {
            tenant: call.tenant.clone(),
            cancel: CancellationToken::new(),
            emitter,
            outside: ResultSlot::default(),
            decided: None,
            draft: None,
            has_token,
            may_be_outside: next.as_ref().is_ok_and(|entry| accepts_posted_result(entry)),
            is_taken_over: false,
        };
        // Boxed because it is large and every step moves it.
        let ongoing = Box::new(Ongoing {
            access,
            call,
            recorder,
            handle,
            reports,
            registration: None,
            begin: StartMode::Start,
            is_accepted_first: false,
            is_queued: false,
            traceparent: None,
            context: Context::current(),
            naming: Naming::default(),
            conversation: None,
            session_guard: None,
            inputs: ExecutorInputs::default(),
            turn: None,
            instance_guard: None,
            is_resumed: false,
            losses: None,
            offer: None,
            runs_since_ms: None,
            parked: None,
            permits: Vec::new(),
        });
        Self { ongoing, next, interrupted: None, claims: Vec::new(), deferred: None, place: None }
    }

    /// Returns `true` if the call may run concurrently with other calls of its batch.
    pub fn is_concurrency_safe(&self) -> bool {
        self.next.as_ref().map_or(true, |entry| entry.definition.is_concurrency_safe())
    }

    /// Returns `true` if the arguments are streamed.
    pub fn is_streamed(&self) -> bool {
        self.ongoing.handle.draft.is_some()
    }

    /// Returns `true` if the call may hold a second copy of argument values: coerced ones, or values in the details of
    /// a failure.
    pub fn has_copies(&self) -> bool {
        match &self.next {
            Err(failure) => failure.details.is_some(),
            Ok(_) => {
                let effective = self.ongoing.call.effective_arguments.as_ref();
                effective.is_some_and(|effective| !Arc::ptr_eq(effective, &self.ongoing.call.arguments))
            }
        }
    }

    /// Returns `true` if the call must be committed before it runs.
    pub fn is_accepted_first(&self) -> bool {
        !self.claims.is_empty()
            || self.ongoing.call.callback_url.is_some()
            || self.is_asynchronous()
            || self.is_streamed()
            || self.next.as_ref().is_ok_and(|entry| entry.definition.requires_approval())
    }

    /// Returns `true` if the tool is asynchronous, so that the other calls of a batch do not wait for it.
    pub fn is_asynchronous(&self) -> bool {
        self.next.as_ref().is_ok_and(|entry| entry.definition.asynchronous)
    }

    /// Rejects a call that was not accepted, after an earlier call of its batch could not be recorded: the caller has
    /// received a failure and may repeat the batch.
    pub fn reject_late(&mut self) {
        if self.next.is_ok() && !self.ongoing.is_accepted_first {
            let failure = Failure::overloaded(
                "An earlier call of the batch could not be recorded in time; this call was not run",
            );
            self.next = Err(failure.into());
        }
    }

    /// Ends a call that waits for its turn with this failure.
    pub fn interrupt(&mut self, failure: Failure) {
        let next = std::mem::replace(&mut self.next, Err(failure.into()));
        self.interrupted = next.ok().filter(|entry| entry.works_outside() && entry.definition.worker().is_none());
    }

    /// Enters the call in its session, unless it is rejected.
    pub fn enter_session(&mut self, sessions: &SessionCalls) {
        let Ongoing { call, handle, .. } = &*self.ongoing;
        if let (Ok(_), Some(session)) = (&self.next, &call.session) {
            let session = (call.tenant.clone(), session.clone());
            let (tool, cancel) = (call.name.clone(), handle.cancel.clone());
            let guard = sessions.enter(call.id, SessionCall { session, tool, cancel });
            self.ongoing.session_guard = Some(guard);
        }
    }

    /// Ends the call before it is prepared.
    pub fn ended(self, end: RunExit) -> Executed {
        Executed { job: self.ongoing, entry: self.next.ok(), end }
    }
}

impl Ongoing {
    /// Makes the call reachable for cancellations and reports. Must precede any message that shows the call's id to a
    /// client.
    pub fn register(&mut self, live: &LiveCalls) {
        if self.registration.is_none() {
            self.registration = Some(live.enter(self.call.id, self.handle.clone()));
        }
    }

    /// Returns the arguments that the tool gets, including presets.
    pub fn given_arguments(&self) -> Arc<Value> {
        self.inputs.arguments.clone().or(self.call.effective_arguments.clone()).unwrap_or_default()
    }

    /// Returns the watch of the call's offer to workers.
    pub fn watch_offer(&mut self, offers: &Offers) -> Arc<OfferWatch> {
        let enter = || OfferWatch::enter(offers, self.call.id);
        self.offer.get_or_insert_with(enter).0.clone()
    }

    /// Makes the call reachable for decisions about its approval.
    pub fn await_decisions(&mut self, live: &LiveCalls) -> Arc<Notify> {
        let decided = self.handle.decided.get_or_insert_default().clone();
        self.register(live);
        if let Some(handle) = live.calls().get_mut(&self.call.id) {
            handle.decided = Some(decided.clone());
        }
        decided
    }

    /// Returns `true` if subscribers know the current status of the call.
    pub fn is_announced(&self) -> bool {
        let is_behind = self.call.started_at.is_some() && !self.recorder.has_announced_start();
        self.recorder.has_announced() && !is_behind
    }

    /// Returns `true` if the run ends because another node has adopted the call.
    pub fn is_taken_over(&self, live: &LiveCalls) -> bool {
        self.handle.cancel.is_cancelled() && live.get(self.call.id).is_some_and(|handle| handle.is_taken_over)
    }

    /// Makes the call reachable, and publishes its status to subscribers if they do not know it.
    pub async fn announce(&mut self, live: &LiveCalls) {
        self.register(live);
        if !self.is_announced() {
            let change = self.recorder.change(&self.call);
            self.recorder.enqueue(change).await;
        }
    }

    /// Records the start of the call, unless it is recorded. The row of its offer can be deleted afterwards: until then, only
    /// the row says that a worker had the call.
    pub async fn record_start(&mut self) {
        if self.call.started_at.is_some() && !self.is_announced() {
            let change = self.recorder.change(&self.call);
            if let Err(error) = self.recorder.write(change).await {
                // The next change of the call fails in the same way.
                tracing::debug!(id = %self.call.id, %error, "the start of a call was not recorded");
            }
        }
    }

    /// Builds a change that records an event of the call.
    pub fn event(&self, kind: EventKind, data: String) -> Change {
        let reported = Reported { seq: self.call.last_seq, kind, data };
        Change::reported(Arc::new(self.call.clone()), Arc::new(reported))
    }

    /// Builds a change that records the current status of the call as an event.
    pub fn status_change(&self, now: Time) -> Change {
        assert_in_tests!(!self.call.status.is_terminal());
        self.event(EventKind::Status, render::status_update(&self.call, now))
    }

    /// Returns the creation time of the session, if known. It distinguishes sessions that had the same id one after the
    /// other.
    pub fn session_since(&self) -> Option<Time> {
        self.conversation.as_ref().map(|session| session.created_at)
    }

    /// Returns `true` if a result may have been posted that the call has not consumed. A call that ends with `outcome`
    /// before it starts has no result if it was refused, or needs an approval that it does not have.
    pub fn may_have_result(&self, entry: &Entry, outcome: &Outcome) -> bool {
        if !self.handle.may_be_outside || !self.recorder.has_announced() {
            return false;
        }
        match self.call.status {
            Status::Doing => self.handle.outside.is_awaited() || self.handle.outside.is_shut(),
            _ => {
                let is_refused = outcome.error.as_ref().is_some_and(|failure| refuses(failure.code));
                let lacks_approval = match &self.call.approval {
                    Some(approval) => !approval.is_approved(),
                    None => entry.definition.requires_approval(),
                };
                entry.works_outside() && entry.definition.worker().is_none() && !is_refused && !lacks_approval
            }
        }
    }

    /// Returns `true` if a shutdown leaves the call unchanged: it is detached, and is worked on outside this process.
    pub fn is_left_at_once(&self) -> bool {
        self.is_queued && self.call.phase == Phase::External
    }
}

/// Returns `true` if a call with this failure must not have run, so that a result that it kept does not count.
fn refuses(code: Code) -> bool {
    !matches!(code, Code::Cancelled | Code::ToolTimeout | Code::Overloaded | Code::ShuttingDown | Code::OutcomeUnknown)
}

/// Returns the limits of a call. The request takes precedence, followed by the tool, the session and the server.
pub(in crate::engine) fn limits_of(
    server: &ServerLimits,
    entry: &Entry,
    asked: &LimitsSpec,
    session: Option<&Session>,
) -> Limits {
    let tool = &entry.definition;
    let mut limits = match session {
        None => Limits::effective(asked, &tool.limits, server, tool.asynchronous),
        Some(session) => {
            let declared = tool.limits.clone().or(&session.limits);
            Limits::effective(asked, &declared, server, tool.asynchronous)
        }
    };
    if tool.worker().is_some() {
        limits.queue_timeout_ms.get_or_insert(WORKER_QUEUE_TIMEOUT_MS);
    }
    limits
}

/// A call that is ready to run.
pub(in crate::engine) struct Prepared {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    /// The place in the queue, if one was acquired in advance.
    pub place: Option<QueuedSlot>,
}

impl Prepared {
    /// Ends the call before it is admitted.
    pub fn ended(self, end: RunExit) -> Executed {
        Executed { job: self.job, entry: Some(self.entry), end }
    }
}

/// The tool or the policy that requires an approval.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Requirement {
    pub by: RequiredBy,
    pub policy: Option<String>,
    pub reason: Option<String>,
}

/// A call that only needs to be settled.
pub(in crate::engine) struct Executed {
    pub job: Box<Ongoing>,
    /// The tool, if the call was not rejected.
    pub entry: Option<Arc<Entry>>,
    pub end: RunExit,
}

/// The way in which a call leaves the steps.
pub(in crate::engine) enum RunExit {
    /// The tool returned this outcome.
    Done(Box<Outcome>),
    /// The call ends with this outcome, which is not from its tool.
    Settle(Box<Outcome>),
    /// The stored call stays unchanged; the next start or another node continues it.
    LeaveQueued,
    /// Another node has adopted the call.
    TakenOver,
}

impl From<Interrupt> for RunExit {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Cancelled => Failure::cancelled().into(),
            Interrupt::Drained => Self::LeaveQueued,
            Interrupt::Stopping => Failure::shutting_down().into(),
            Interrupt::TimedOut(limit_ms, name) => Failure::timeout(limit_ms, name).into(),
        }
    }
}

impl<T: Into<Outcome>> From<T> for RunExit {
    fn from(outcome: T) -> Self {
        Self::Settle(Box::new(outcome.into()))
    }
}
