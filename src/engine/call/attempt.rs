//! One attempt of a call: runs the tool, and records and publishes its reports.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::instrument::{attempt_span, record_attempt};
use super::interrupt::{ANNOUNCE_AFTER, Interrupt, Race};
use super::state::{Ongoing, RunExit, StartMode};
use super::wait::Waiter;
use crate::domain::call::{Phase, StatusUpdate};
use crate::domain::event::EventKind;
use crate::domain::limits::Bounds;
use crate::domain::{Call, Code, Failure, Outcome, Time, ToolOutput, convert};
use crate::events::render;
use crate::executor::Invocation;
use crate::executor::emitter::{Report, Waiters};
use crate::registry::Entry;
use crate::store::Journal;
use crate::store::journal::{Change, JournalError};
use crate::telemetry::{Metrics, Tracer};

/// The answer of a tool, a failure that may be retried, or a panic.
type ToolResult = Result<Result<ToolOutput, Failure>, Box<dyn Any + Send>>;

/// The commit of a change that is under way. Boxed because few attempts write a change, and a future is as large as its
/// largest branch.
type Commit<'a> = Fuse<BoxFuture<'a, Result<(), JournalError>>>;

/// Runs single attempts.
pub(super) struct Attempts<'a> {
    pub waiter: Waiter<'a>,
    pub tasks: &'a TaskTracker,
    pub metrics: &'a Metrics,
    pub tracer: &'a Tracer,
}

impl Attempts<'_> {
    /// Runs the tool once. Reports of the tool are merged into the call, recorded and published. Returns the outcome,
    /// which may report an error of the tool and is not retried, or a failure of the attempt, which may be.
    ///
    /// # Errors
    /// Returns the end of the call if the attempt was interrupted.
    pub async fn run(&self, job: &mut Ongoing, entry: &Entry) -> Result<Result<Box<Outcome>, Box<Failure>>, RunExit> {
        // The tool receives one token for every reason to stop.
        let cancel = job.handle.cancel.child_token();
        let _running = self.metrics.running();
        let mut span = attempt_span(self.tracer, job, entry);
        let mut invocation = self.invocation(job, cancel.clone());
        if let Some(own) = span.traceparent() {
            invocation.traceparent = Some(own);
        }
        let mut running = pin!(AssertUnwindSafe(entry.stack.clone().oneshot(invocation)).catch_unwind().fuse());
        let journal = job.recorder.journal().clone();
        job.reports.are_recorded(true);
        let (ended, commit) = self.record_reports(job, &journal, running.as_mut()).await;
        job.reports.are_recorded(false);
        cancel.cancel();
        // Drop the work now: the commit of its reports may take longer.
        running.set(Fuse::terminated());
        if !commit.is_terminated() {
            log_unrecorded(&job.call, commit.await);
        }
        if let Some(first) = job.reports.take() {
            Box::pin(self.write_last_reports(job, first)).await;
        }
        let (end, code) = match ended {
            Ok(Some(answer)) => {
                let result = result_of(job, entry, answer);
                let failure = result.as_ref().map_or_else(|failure| Some(&**failure), |outcome| outcome.error.as_ref());
                let code = failure.map(|failure| failure.code);
                (Ok(result), code)
            }
            Ok(None) => (Err(RunExit::TakenOver), Some(Code::OutcomeUnknown)),
            Err(_) if job.handle.cancel.is_cancelled() => (Err(Failure::cancelled().into()), Some(Code::Cancelled)),
            Err(_) if job.is_left_at_once() => (Err(RunExit::LeaveQueued), Some(Code::ShuttingDown)),
            Err(_) => (Err(Failure::shutting_down().into()), Some(Code::ShuttingDown)),
        };
        record_attempt(&mut span, code);
        end
    }

    /// Records the reports of a tool until it has ended; returns `None` if another node has adopted or settled the
    /// call. Also returns the commit that is still under way.
    ///
    /// Only one change is written at a time. Reports that arrive in the meantime are merged, which bounds the cost of a
    /// tool that reports often.
    async fn record_reports<'j>(
        &self,
        job: &mut Ongoing,
        journal: &'j Journal,
        mut running: Pin<&mut impl Future<Output = ToolResult>>,
    ) -> (Result<Option<ToolResult>, Interrupt>, Commit<'j>) {
        let own_cancel = job.handle.cancel.clone();
        let mut announce = pin!(async { tokio::time::sleep(ANNOUNCE_AFTER).await });
        let mut commit: Commit<'j> = Fuse::terminated();
        let mut is_taken = false;
        loop {
            let idle = commit.is_terminated();
            let announced = job.recorder.has_announced_start();
            // A detached call with external work stays as it is; the next start continues to wait for its result.
            let (is_left, shutdown) = (job.is_left_at_once(), self.waiter.shutdown);
            let race = Race::new(&own_cancel, shutdown).left_on_drain(is_left, shutdown).work_first();
            let next = async {
                tokio::select! {
                    biased;
                    ended = &mut running => return Some(ended),
                    written = &mut commit, if !idle => {
                        is_taken = written == Err(JournalError::Fenced);
                        log_unrecorded(&job.call, written);
                    }
                    () = &mut announce, if idle && !announced => {
                        job.register(self.waiter.live);
                        commit = journal.write(job.recorder.change(&job.call)).boxed().fuse();
                    }
                    report = job.reports.next(), if idle && announced => {
                        let waiters = job.reports.waiters();
                        if let Some(change) = apply(job, report, self.waiter.clock.now()) {
                            let write = async move {
                                let written = journal.write(change).await;
                                acknowledge(waiters, &written);
                                written
                            };
                            commit = write.boxed().fuse();
                        }
                    }
                }
                None
            };
            match race.run(next).await {
                Ok(None) if !is_taken => {}
                ended => return (ended, commit),
            }
        }
    }

    /// Enqueues the last reports of the tool without waiting. The end of the call follows in the same queue, so its
    /// commit implies theirs.
    async fn write_last_reports(&self, job: &mut Ongoing, first: Report) {
        let journal = job.recorder.journal().clone();
        let mut next = Some(first);
        while let Some(report) = next {
            if changes_nothing(job, &report) {
                next = job.reports.take();
                continue;
            }
            job.announce(self.waiter.live).await;
            let waiters = job.reports.waiters();
            if let Some(change) = apply(job, report, self.waiter.clock.now())
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

    fn invocation(&self, job: &Ongoing, cancel: CancellationToken) -> Invocation {
        let call = &job.call;
        let limits = call.limits;
        // A call that is awaited again after a restart keeps its original timeout.
        let elapsed_ms = match (job.begin, call.started_at) {
            (StartMode::AwaitResult, _) if job.runs_since_ms.is_some() => job.runs_since_ms.unwrap_or_default(),
            (StartMode::AwaitResult, Some(started)) => self.waiter.clock.now().millis_since(started),
            _ => 0,
        };
        Invocation {
            id: call.id,
            tenant: call.tenant.clone(),
            allowed: call.allowed.clone(),
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            naming: job.naming,
            arguments: job.given_arguments(),
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
            redaction: job.inputs.redaction.clone(),
        }
    }
}

/// Converts the result of a tool to an outcome, or to a failure that may be retried. Removes secrets.
fn result_of(job: &Ongoing, entry: &Entry, result: ToolResult) -> Result<Box<Outcome>, Box<Failure>> {
    let failure = match result {
        Ok(Ok(answer)) if let Some(failure) = convert::stated_failure(&job.call.name, &answer) => {
            // A result is final, even if the caller may repeat the call.
            return Ok(Outcome::failed(job.inputs.failure_of(&job.call, entry, failure)).into());
        }
        Ok(Ok(answer)) => {
            let outcome = match answer {
                // The tool returned its arguments unchanged, so their JSON text can be reused.
                ToolOutput::Data(value) if Arc::ptr_eq(&value, &job.call.arguments) => {
                    Outcome::data_as(value, job.call.arguments_text.clone())
                }
                answer => convert::outcome_of(&job.call.name, answer),
            };
            return Ok(job.inputs.without_secrets(outcome).into());
        }
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no panic message");
            Failure::execution(&job.call.name, format!("the tool panicked: {text}"))
        }
    };
    Err(job.inputs.failure_of(&job.call, entry, failure).into())
}

/// Returns `true` if a report repeats what the start of the call has said: that it is worked on outside this process.
fn changes_nothing(job: &Ongoing, report: &Report) -> bool {
    let is_outside = job.call.phase == Phase::External;
    matches!(report, Report::Status(update) if is_outside && update.only_enters(Phase::External))
}

/// Merges a report into the call, and returns the change that records it.
fn apply(job: &mut Ongoing, report: Report, now: Time) -> Option<Change> {
    if changes_nothing(job, &report) {
        return None;
    }
    match job.inputs.report_without_secrets(report) {
        Report::Status(update) => {
            job.call.update(update).ok()?;
            Some(job.status_change(now))
        }
        Report::Emission(emission) => {
            job.call.update(StatusUpdate::default()).ok()?;
            Some(job.event(EventKind::Progress, render::emission(&job.call, &emission, now)))
        }
    }
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
