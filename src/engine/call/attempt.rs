//! One attempt of a call: runs the tool, and records and publishes its reports.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::inject::ExecutorInputs;
use super::instrument::{attempt_span, record_attempt};
use super::interrupt::{ANNOUNCE_AFTER, Race, Shutdown};
use super::state::{Ongoing, StartMode};
use crate::domain::call::StatusUpdate;
use crate::domain::event::{Emission, EventKind, Reported};
use crate::domain::limits::Bounds;
use crate::domain::{Call, Clock, Code, Failure, Outcome, ToolOutput, convert};
use crate::engine::live::LiveCalls;
use crate::events::render;
use crate::executor::Invocation;
use crate::executor::emitter::{Report, Waiters};
use crate::registry::Entry;
use crate::store::journal::{Change, JournalError};
use crate::telemetry::{Metrics, Tracer};

/// The end of an attempt.
#[derive(Debug)]
pub(super) enum AttemptEnd {
    /// The tool returned an output, which may report an error. It is not retried.
    Answered(Box<Outcome>),
    /// The attempt failed, and may be retried.
    Failed(Box<Failure>),
    /// The call was cancelled.
    Cancelled,
    /// The service stops.
    ShuttingDown,
    /// Another node has adopted or settled the call.
    Taken,
}

impl AttemptEnd {
    /// Returns the failure code of the attempt, or `None` if it succeeded.
    fn failure(&self) -> Option<Code> {
        match self {
            Self::Answered(outcome) => outcome.error.as_ref().map(|failure| failure.code),
            Self::Failed(failure) => Some(failure.code),
            Self::Cancelled => Some(Code::Cancelled),
            Self::ShuttingDown => Some(Code::ShuttingDown),
            Self::Taken => Some(Code::OutcomeUnknown),
        }
    }
}

/// Runs single attempts.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    pub clock: &'a Clock,
    pub live: &'a LiveCalls,
    pub shutdown: &'a Shutdown,
    pub tasks: &'a TaskTracker,
    pub metrics: &'a Metrics,
    pub tracer: &'a Tracer,
}

impl Attempts<'_> {
    /// Runs the tool once. Reports of the tool are merged into the call, recorded and published.
    pub async fn run(&self, job: &mut Ongoing, entry: &Entry, inputs: &ExecutorInputs) -> AttemptEnd {
        // The tool receives one token for every reason to stop.
        let cancel = job.handle.cancel.child_token();
        let _running = self.metrics.running();
        let mut span = attempt_span(self.tracer, job, entry);
        let mut invocation = self.invocation(job, inputs, cancel.clone());
        if let Some(own) = span.traceparent() {
            invocation.traceparent = Some(own);
        }
        let mut running = pin!(AssertUnwindSafe(entry.stack.clone().oneshot(invocation)).catch_unwind().fuse());
        let mut announce = pin!(async { tokio::time::sleep(ANNOUNCE_AFTER).await });
        // Only one change is written at a time. Reports that arrive in the meantime are merged, which bounds the cost
        // of a tool that reports often.
        let journal = job.recorder.journal().clone();
        // Boxed because few attempts write a change, and a future is as large as its largest branch.
        let mut writing = Fuse::<BoxFuture<'_, Result<(), JournalError>>>::terminated();
        let mut is_taken = false;
        job.reports.are_recorded(true);
        let own_cancel = job.handle.cancel.clone();
        let ended = loop {
            let idle = writing.is_terminated();
            let announced = job.recorder.has_announced_start();
            // A detached call with external work stays as it is; the next start continues to wait for its result.
            let is_left = job.is_left_at_once();
            let race = Race::new(&own_cancel, self.shutdown).left_on_drain(is_left, self.shutdown).work_first();
            let next = async {
                tokio::select! {
                    biased;
                    ended = &mut running => return Some(ended),
                    written = &mut writing, if !idle => {
                        is_taken = written == Err(JournalError::Fenced);
                        log_unrecorded(&job.call, written);
                    }
                    () = &mut announce, if idle && !announced => {
                        job.register(self.live);
                        writing = journal.write(job.recorder.change(&job.call)).boxed().fuse();
                    }
                    report = job.reports.next(), if idle && announced => {
                        let waiters = job.reports.waiters();
                        if let Some(change) = apply(job, inputs, report) {
                            let journal = &journal;
                            let write = async move {
                                let written = journal.write(change).await;
                                acknowledge(waiters, &written);
                                written
                            };
                            writing = write.boxed().fuse();
                        }
                    }
                }
                None
            };
            match race.run(next).await {
                Ok(None) if !is_taken => {}
                Ok(ended) => break Ok(ended),
                Err(interrupt) => break Err(interrupt),
            }
        };
        job.reports.are_recorded(false);
        cancel.cancel();
        // Drop the work now: the commit of its reports may take longer.
        running.set(Fuse::terminated());
        if !writing.is_terminated() {
            log_unrecorded(&job.call, writing.await);
        }
        if let Some(first) = job.reports.take() {
            Box::pin(self.write_last_reports(job, inputs, first)).await;
        }
        let ended = match ended {
            Ok(Some(Ok(Ok(answer)))) => {
                let outcome = match answer {
                    // The tool returned its arguments unchanged, so their JSON text can be reused.
                    ToolOutput::Data(value) if Arc::ptr_eq(&value, &job.call.arguments) => {
                        Outcome::data_as(value, job.call.arguments_text.clone())
                    }
                    answer => convert::outcome_of(&job.call.name, answer),
                };
                AttemptEnd::Answered(inputs.without_secrets(outcome).into())
            }
            Ok(Some(Ok(Err(failure)))) => AttemptEnd::Failed(inputs.failure_of(&job.call, entry, failure).into()),
            Ok(Some(Err(panic))) => {
                let message = format!("the tool panicked: {}", panic_message(&*panic));
                let failure = Failure::execution(&job.call.name, message);
                AttemptEnd::Failed(inputs.failure_of(&job.call, entry, failure).into())
            }
            Ok(None) => AttemptEnd::Taken,
            Err(_) if job.handle.cancel.is_cancelled() => AttemptEnd::Cancelled,
            Err(_) => AttemptEnd::ShuttingDown,
        };
        record_attempt(&mut span, ended.failure());
        ended
    }

    /// Enqueues the last reports of the tool without waiting. The end of the call follows in the same queue, so its
    /// commit implies theirs.
    async fn write_last_reports(&self, job: &mut Ongoing, inputs: &ExecutorInputs, first: Report) {
        let journal = job.recorder.journal().clone();
        let mut next = Some(first);
        while let Some(report) = next {
            if !job.recorder.has_announced_start() {
                job.register(self.live);
                let _ = journal.enqueue(job.recorder.change(&job.call)).await;
            }
            let waiters = job.reports.waiters();
            if let Some(change) = apply(job, inputs, report)
                && let Ok(receipt) = journal.enqueue(change).await
                && !waiters.is_empty()
            {
                self.tasks.spawn(async move {
                    if let Ok(written) = receipt.await {
                        acknowledge(waiters, &written);
                    }
                });
            }
            next = job.reports.take();
        }
    }

    fn invocation(&self, job: &Ongoing, inputs: &ExecutorInputs, cancel: CancellationToken) -> Invocation {
        let call = &job.call;
        let limits = call.limits;
        // A call that is awaited again after a restart keeps its original timeout.
        let elapsed_ms = match (job.begin, call.started_at) {
            (StartMode::AwaitResult, Some(started)) => self.clock.now().millis_since(started),
            _ => 0,
        };
        Invocation {
            id: call.id,
            tenant: call.tenant.clone(),
            allowed: call.allowed.clone(),
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            naming: job.naming,
            arguments: inputs.arguments.clone().or(call.effective_arguments.clone()).unwrap_or_default(),
            context: job.call.context.clone(),
            agent: call.agent.clone(),
            session: call.session.clone(),
            session_snapshot: job.conversation.clone(),
            attempt: call.attempts,
            timeout_ms: limits.map_or(0, |limits| limits.timeout_ms),
            elapsed_ms,
            output: limits.map_or_else(Bounds::default, |limits| limits.output()),
            idle_timeout_ms: limits.and_then(|limits| limits.idle_timeout_ms),
            awaits_external: job.begin == StartMode::AwaitResult,
            result_slot: job.handle.outside.clone(),
            traceparent: job.traceparent.clone(),
            emitter: job.handle.emitter.clone(),
            cancel,
            redaction: inputs.redaction.clone(),
        }
    }
}

/// Merges a report into the call, and returns the change that records it.
fn apply(job: &mut Ongoing, inputs: &ExecutorInputs, report: Report) -> Option<Change> {
    match inputs.report_without_secrets(report) {
        Report::Status(update) => {
            job.call.update(update).ok()?;
            Some(job.status_change())
        }
        Report::Emission(emission) => {
            job.call.update(StatusUpdate::default()).ok()?;
            Some(emission_change(job, &emission))
        }
    }
}

fn emission_change(job: &Ongoing, emission: &Emission) -> Change {
    let data = render::emission(&job.call, emission);
    job.recorder.reported(&job.call, Reported { seq: job.call.last_seq, kind: EventKind::Progress, data })
}

/// Acknowledges reports that are committed, or that the database rejects permanently. After any other failure, the
/// acknowledgement is left to the node that adopts the call.
fn acknowledge(waiters: Waiters, written: &Result<(), JournalError>) {
    if matches!(written, Ok(()) | Err(JournalError::Refused)) {
        for waiter in waiters {
            // The receiver may have been dropped.
            let _ = waiter.send(());
        }
    }
}

fn log_unrecorded(call: &Call, written: Result<(), JournalError>) {
    if let Err(error) = written {
        tracing::warn!(id = %call.id, %error, "a report of a running call was not recorded");
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no panic message")
}
