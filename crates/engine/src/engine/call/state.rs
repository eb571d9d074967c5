//! The state of a call between the steps: [`Planned`], [`Prepared`], [`Admitted`] and [`Executed`] carry what the steps have
//! produced.

use std::sync::Arc;

use super::run::CallRun;
use super::run_exit::RunExit;
use crate::arguments::stream::ArgumentStream;
use crate::dispatch::{QueuedSlot, Slot};
use crate::engine::context::ContextObjects;
use crate::engine::sessions::{SessionCall, SessionCalls};
use crate::inputs::ExecutorInputs;
use crate::registry::Entry;
use toolpost_core::domain::limits::ServerLimits;
use toolpost_core::domain::{Failure, KeyClaim, Limits, LimitsSpec, RequiredBy, Session, Vendor};

/// Default time that a call waits for a worker, in milliseconds.
const WORKER_QUEUE_TIMEOUT_MS: u64 = 60_000;

/// A planned call.
pub(in crate::engine) struct Planned {
    // Boxed because it is large and every step moves it.
    pub run: Box<CallRun>,
    pub next: Next,
    /// The idempotency keys, which are claimed in the accepting commit.
    pub claims: Vec<KeyClaim>,
    /// The arguments that are still to come, if they are streamed.
    pub streamed: Option<Box<StreamedArguments>>,
    /// The place in the queue, if one was acquired in advance.
    pub queued: Option<QueuedSlot>,
}

/// The way that a planned call takes.
pub(in crate::engine) enum Next {
    /// All steps: the call is new, or nothing of it has run.
    Prepare(Arc<Entry>),
    /// A further attempt: the last one was lost, or has failed, and the tool may be repeated.
    Repeat(Arc<Entry>),
    /// The rest of an attempt that is worked on outside of this process: for this time, in milliseconds, if it is known.
    Continue(Arc<Entry>, Option<u64>),
    /// The end: an attempt was lost that must not be repeated. Only a result that is posted already counts.
    Lost(Arc<Entry>),
    /// The end with this failure. The tool is given if the call may have kept a posted result.
    End(Box<Failure>, Option<Arc<Entry>>),
}

/// Streamed arguments, and the parts of their request that are used only after they are complete.
pub(in crate::engine) struct StreamedArguments {
    pub stream: ArgumentStream,
    pub vendor: Option<Vendor>,
    pub limits: LimitsSpec,
    pub context: ContextObjects,
}

impl Next {
    /// Returns the tool that runs, if the call does not end.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Prepare(entry) | Self::Repeat(entry) | Self::Continue(entry, _) | Self::Lost(entry) => Some(entry),
            Self::End(..) => None,
        }
    }

    /// Returns `true` if the call may run concurrently with other calls of its batch.
    pub fn is_concurrency_safe(&self) -> bool {
        self.entry().is_none_or(|entry| entry.definition.is_concurrency_safe())
    }

    /// Returns `true` if the tool is asynchronous, so that the other calls of a batch do not wait for it.
    pub fn is_asynchronous(&self) -> bool {
        self.entry().is_some_and(|entry| entry.definition.asynchronous)
    }

    /// Returns `true` if the work of the call does not run here.
    pub fn is_outside(&self) -> bool {
        matches!(self, Self::Continue(..) | Self::Lost(_))
    }
}

impl From<Result<Arc<Entry>, Box<Failure>>> for Next {
    fn from(planned: Result<Arc<Entry>, Box<Failure>>) -> Self {
        planned.map_or_else(|failure| Self::End(failure, None), Self::Prepare)
    }
}

impl Planned {
    /// Creates a planned call without claims.
    pub fn new(run: CallRun, next: Next) -> Self {
        Self { run: Box::new(run), next, claims: Vec::new(), streamed: None, queued: None }
    }

    /// Returns `true` if the call may run concurrently with other calls of its batch.
    pub fn is_concurrency_safe(&self) -> bool {
        self.next.is_concurrency_safe()
    }

    /// Returns `true` if the arguments are streamed.
    pub fn is_streamed(&self) -> bool {
        self.streamed.is_some()
    }

    /// Returns `true` if the call may hold a second copy of argument values: coerced ones, or values in the details of
    /// a failure.
    pub fn has_copies(&self) -> bool {
        match &self.next {
            Next::End(failure, _) => failure.details.is_some(),
            _ => {
                let call = self.run.call();
                call.effective_arguments.as_ref().is_some_and(|effective| !Arc::ptr_eq(effective, &call.arguments))
            }
        }
    }

    /// Returns `true` if the call must be committed before it runs.
    pub fn is_accepted_first(&self) -> bool {
        !self.claims.is_empty()
            || self.run.call().callback_url.is_some()
            || self.is_asynchronous()
            || self.is_streamed()
            || self.next.entry().is_some_and(|entry| entry.definition.requires_approval())
    }

    /// Returns `true` if the tool is asynchronous, so that the other calls of a batch do not wait for it.
    pub fn is_asynchronous(&self) -> bool {
        self.next.is_asynchronous()
    }

    /// Rejects a call that was not accepted, after an earlier call of its batch could not be recorded: the caller has
    /// received a failure and may repeat the batch.
    pub fn reject_late(&mut self) {
        if self.next.entry().is_some() && !self.run.is_accepted_first() {
            let failure = Failure::overloaded(
                "An earlier call of the batch could not be recorded in time; this call was not run",
            );
            self.next = Next::End(failure.into(), None);
        }
    }

    /// Ends a call that waits for its turn with this failure.
    pub fn interrupt(&mut self, failure: Failure) {
        let entry = self.next.entry().filter(|entry| entry.works_outside() && entry.definition.worker().is_none());
        self.next = Next::End(failure.into(), entry.cloned());
    }

    /// Enters the call in its session, unless it is rejected.
    pub fn enter_session(&mut self, sessions: &SessionCalls) {
        let call = self.run.call();
        if let (Some(_), Some(session)) = (self.next.entry(), &call.session) {
            let session = (call.tenant.clone(), session.clone());
            let (tool, cancel) = (call.name.clone(), self.run.cancel().clone());
            let guard = sessions.enter(call.id, SessionCall { session, tool, cancel });
            self.run.keep_guard(guard);
        }
    }

    /// Ends the call before it is prepared.
    pub fn ended(self, end: RunExit) -> Executed {
        let entry = self.next.entry().cloned();
        Executed { run: self.run, entry, inputs: ExecutorInputs::default(), end }
    }
}

/// Returns the limits of a call. The request takes precedence, followed by the tool, the session and the server.
pub(in crate::engine) fn limits_of(
    server: &ServerLimits,
    entry: &Entry,
    requested: &LimitsSpec,
    session: Option<&Session>,
) -> Limits {
    let tool = &entry.definition;
    let mut limits = match session {
        None => Limits::effective(requested, &tool.limits, server, tool.asynchronous),
        Some(session) => {
            let declared = tool.limits.clone().or(&session.limits);
            Limits::effective(requested, &declared, server, tool.asynchronous)
        }
    };
    if tool.worker().is_some() {
        limits.queue_timeout_ms.get_or_insert(WORKER_QUEUE_TIMEOUT_MS);
    }
    limits
}

/// A call that is ready to run.
pub(in crate::engine) struct Prepared {
    pub run: Box<CallRun>,
    pub entry: Arc<Entry>,
    /// The inputs that only the executor receives.
    pub inputs: ExecutorInputs,
    /// The place in the queue, if one was acquired in advance.
    pub queued: Option<QueuedSlot>,
}

impl Prepared {
    /// Begins the preparation of a call.
    pub fn new(run: Box<CallRun>, entry: Arc<Entry>, queued: Option<QueuedSlot>) -> Self {
        Self { run, entry, inputs: ExecutorInputs::default(), queued }
    }

    /// Ends the call before it is admitted.
    pub fn ended(self, end: RunExit) -> Executed {
        Executed { run: self.run, entry: Some(self.entry), inputs: self.inputs, end }
    }
}

/// The tool or the policy that requires an approval.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Requirement {
    pub by: RequiredBy,
    pub policy: Option<String>,
    pub reason: Option<String>,
}

/// A call that may run. It occupies its slot until this value is dropped.
pub(in crate::engine) struct Admitted {
    pub run: Box<CallRun>,
    pub entry: Arc<Entry>,
    pub inputs: ExecutorInputs,
    pub slot: Option<Slot>,
}

/// A call that only needs to be settled.
pub(in crate::engine) struct Executed {
    pub run: Box<CallRun>,
    /// The tool, if the call was not rejected.
    pub entry: Option<Arc<Entry>>,
    pub inputs: ExecutorInputs,
    pub end: RunExit,
}
