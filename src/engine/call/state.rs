//! One call on its way through the engine, and why a step ends it early.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::inject::ExecutorInputs;
use super::interrupt::Interrupt;
use super::recorder::Recorder;
use crate::access::Access;
use crate::dispatch::QueuedSlot;
use crate::domain::event::{EventKind, Reported};
use crate::domain::limits::ServerLimits;
use crate::domain::{
    Call, Failure, KeyClaim, Limits, LimitsSpec, Naming, Outcome, Phase, Session, Status, Time, Vendor,
};
use crate::engine::call_order::OrderGuard;
use crate::engine::context::ContextObjects;
use crate::engine::live::{CallHandle, LiveCalls, Registration};
use crate::engine::sessions::SessionGuard;
use crate::events::render;
use crate::executor::ResultSlot;
use crate::executor::emitter::{self, ReportReceiver};
use crate::executor::instances::CallInstanceGuard;
use crate::registry::Entry;
use crate::store::journal::Change;
use crate::telemetry::Context;

/// A call on its way: what every step works with.
#[derive(Debug)]
pub(in crate::engine) struct Ongoing {
    /// The caller that it runs for.
    pub access: Access,
    pub call: Call,
    pub recorder: Recorder,
    pub handle: CallHandle,
    pub reports: ReportReceiver,
    /// Makes it reachable while it is held.
    pub registration: Option<Registration>,
    pub begin: StartMode,
    /// It was on disk before anything ran: a caller that repeats it finds it.
    pub is_accepted_first: bool,
    /// It is detached: it has a place in the queue of such calls, and a drain leaves it to the next start.
    pub is_queued: bool,
    pub traceparent: Option<Arc<str>>,
    /// The request that it came with, for the log.
    pub context: Context,
    /// The names under which its caller is shown tools.
    pub naming: Naming,
    /// Its session, as it was when the call was submitted.
    pub conversation: Option<Arc<Session>>,
    /// Its entry among the calls of its session.
    pub session_guard: Option<SessionGuard>,
    /// What it holds until it is settled: memory, and its place among detached calls.
    pub permits: Vec<Arc<OwnedSemaphorePermit>>,
}

/// A call that is planned: it will run, or is refused.
#[derive(Debug)]
pub(in crate::engine) struct Planned {
    pub ongoing: Box<Ongoing>,
    pub next: Disposition,
    /// Its idempotency keys, which are claimed on disk before it runs.
    pub claims: Vec<KeyClaim>,
    /// What was asked for, as long as its arguments are still streamed.
    pub deferred: Option<Box<DeferredRequest>>,
    /// Its place in the queue, where it was taken beforehand.
    pub place: Option<QueuedSlot>,
}

/// What becomes of a planned call.
#[derive(Debug)]
pub(in crate::engine) enum Disposition {
    Run(Arc<Entry>),
    Reject(Box<Failure>),
}

/// What a call was asked for with, as long as its arguments come.
#[derive(Debug, Default)]
pub(in crate::engine) struct DeferredRequest {
    pub vendor: Option<Vendor>,
    pub limits: LimitsSpec,
    pub context: ContextObjects,
}

/// Where a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum StartMode {
    /// At its beginning.
    Start,
    /// Its last run was lost, or waited for the next one: it is run again.
    Rerun,
    /// Its work is done outside; only the result is awaited.
    AwaitResult,
    /// Its run was lost, and it may not be run again: only a result that was posted before counts.
    Lost,
}

impl Planned {
    /// Creates the plan of a call without anything else.
    pub fn new(access: Access, call: Call, next: Disposition, recorder: Recorder) -> Self {
        let (emitter, reports) = emitter::channel();
        let has_token = matches!(&next, Disposition::Run(entry) if entry.definition.has_token());
        let is_external = matches!(&next, Disposition::Run(entry) if entry.works_outside());
        let handle = CallHandle {
            tenant: call.tenant.clone(),
            cancel: CancellationToken::new(),
            emitter,
            outside: ResultSlot::default(),
            draft: None,
            has_token,
            may_be_outside: has_token || is_external,
        };
        // Boxed, as it is large and every step hands it on.
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
            permits: Vec::new(),
        });
        Self { ongoing, next, claims: Vec::new(), deferred: None, place: None }
    }

    /// Returns `true` if it may run next to its neighbours.
    pub fn is_concurrency_safe(&self) -> bool {
        match &self.next {
            Disposition::Run(entry) => entry.definition.is_concurrency_safe(),
            Disposition::Reject(_) => true,
        }
    }

    /// Returns `true` if its arguments are streamed.
    pub fn is_streamed(&self) -> bool {
        self.ongoing.handle.draft.is_some()
    }

    /// Returns `true` if it is not refused.
    pub fn is_to_run(&self) -> bool {
        matches!(self.next, Disposition::Run(_))
    }

    /// Returns `true` if there may be other values than those of its arguments: coerced ones, or those that a refusal repeats.
    pub fn has_copies(&self) -> bool {
        match &self.next {
            Disposition::Reject(failure) => failure.details.is_some(),
            Disposition::Run(_) => {
                let effective = self.ongoing.call.effective_arguments.as_ref();
                effective.is_some_and(|effective| !Arc::ptr_eq(effective, &self.ongoing.call.arguments))
            }
        }
    }

    /// Returns `true` if the call is committed before it runs.
    pub fn is_accepted_first(&self) -> bool {
        !self.claims.is_empty()
            || self.ongoing.call.callback_url.is_some()
            || self.is_asynchronous()
            || self.is_streamed()
    }

    /// Returns `true` if its neighbours do not wait for it.
    pub fn is_asynchronous(&self) -> bool {
        matches!(&self.next, Disposition::Run(entry) if entry.definition.asynchronous)
    }

    /// Refuses a call whose caller was already told that the batch could not be recorded, and may send it again.
    pub fn give_up(&mut self) {
        if self.is_to_run() && !self.ongoing.is_accepted_first {
            let failure =
                Failure::overloaded("An earlier call of the batch could not be recorded in time; this one was not run");
            self.next = Disposition::Reject(failure.into());
        }
    }

    /// Ends the call before it was prepared.
    pub fn ended(self, end: RunExit) -> Executed {
        let entry = match self.next {
            Disposition::Run(entry) => Some(entry),
            Disposition::Reject(_) => None,
        };
        Executed { job: self.ongoing, entry, inputs: ExecutorInputs::default(), turn: None, instance_guard: None, end }
    }
}

impl Ongoing {
    /// Makes the call reachable: it can be cancelled and reported on from here on, before a client can know its id.
    pub fn register(&mut self, live: &LiveCalls) {
        if self.registration.is_none() {
            self.registration = Some(live.enter(self.call.id, self.handle.clone()));
        }
    }

    /// Makes a call that has to wait reachable, and announces it to subscribers.
    pub async fn publish_status(&mut self, live: &LiveCalls) {
        self.register(live);
        let change = self.recorder.change(&self.call);
        // Its receipt does not matter: whatever the call does next follows in the same queue.
        let _ = self.recorder.journal().enqueue(change).await;
    }

    /// Returns the state of the call as an event of its own, to be written.
    pub fn status_change(&self) -> Change {
        let call: &Call = &self.call;
        debug_assert!(!call.status.is_terminal());
        let reported = Reported { seq: call.last_seq, kind: EventKind::Status, data: render::status_update(call) };
        self.recorder.reported(call, reported)
    }

    /// When its session was made, where that is known: one of the same id may have been there before.
    pub fn session_since(&self) -> Option<Time> {
        self.conversation.as_ref().map(|session| session.created_at)
    }

    /// Whether a result may have been posted for it that it has not taken.
    pub fn may_have_result(&self) -> bool {
        let is_reachable = self.handle.may_be_outside && self.recorder.has_announced();
        is_reachable && self.call.status == Status::Doing && self.handle.outside.is_awaited()
    }

    /// Whether a stop leaves it as it is: its work is done outside, and nobody waits for it here.
    pub fn is_left_at_once(&self) -> bool {
        self.is_queued && self.call.phase == Phase::External
    }
}

/// Returns the limits of a call of this tool: those that were asked for, those of the tool, of the session and of the server,
/// in this order.
pub(in crate::engine) fn limits_of(
    server: &ServerLimits,
    entry: &Entry,
    asked: &LimitsSpec,
    session: Option<&Session>,
) -> Limits {
    let tool = &entry.definition;
    match session {
        None => Limits::effective(asked, &tool.limits, server, tool.asynchronous),
        Some(session) => {
            let declared = tool.limits.clone().or(&session.limits);
            Limits::effective(asked, &declared, server, tool.asynchronous)
        }
    }
}

/// A call that needs no further step but to be settled.
#[derive(Debug)]
pub(in crate::engine) struct Executed {
    pub job: Box<Ongoing>,
    /// Its tool, if it has one.
    pub entry: Option<Arc<Entry>>,
    pub inputs: ExecutorInputs,
    /// Its turn among the calls of one stream, until it is settled.
    pub turn: Option<OrderGuard>,
    /// Ends the instance that its tool has for this call alone, when it is dropped.
    pub instance_guard: Option<CallInstanceGuard>,
    pub end: RunExit,
}

/// The way a call ends here.
#[derive(Debug)]
pub(in crate::engine) enum RunExit {
    /// Its tool has answered with this.
    Done(Box<Outcome>),
    /// It ends with this, without a result of its tool.
    Settle(Box<Outcome>),
    /// It is left as it is on disk: the next start, or another node, continues it.
    LeaveQueued,
    /// Another node has taken it over.
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
