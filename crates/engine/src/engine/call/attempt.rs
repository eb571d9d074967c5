//! One attempt of a call: runs the tool, and records and publishes its reports.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::run::{CallRun, Commit};
use super::run_exit::RunExit;
use super::wait::Waiter;
use crate::inputs::ExecutorInputs;
use crate::interrupt::{ANNOUNCE_AFTER, Interrupt, Race};
use crate::registry::Entry;
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Call, Code, ExecutorSpec, Failure, Outcome, ToolOutput, convert};
use toolpost_store::store::journal::JournalError;
use toolpost_telemetry::trace::{Span, SpanKind};
use toolpost_telemetry::{Metrics, Tracer};
use toolpost_tool::executor::Invocation;
use toolpost_tool::executor::emitter::{Report, Waiters};

/// The answer of a tool, a failure that may be retried, or a panic.
type ToolResult = Result<Result<ToolOutput, Failure>, Box<dyn Any + Send>>;

/// An attempt that has begun before a restart, and whose result is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resumed {
    /// How long the attempt has run, in milliseconds.
    pub elapsed_ms: u64,
}

/// One attempt of a call.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub entry: &'a Entry,
    pub inputs: &'a ExecutorInputs,
    /// Of an attempt that has begun before a restart. Only its result is awaited.
    pub resumed: Option<Resumed>,
}

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
    pub async fn run(
        &self,
        run: &mut CallRun,
        attempt: Attempt<'_>,
    ) -> Result<Result<Box<Outcome>, Box<Failure>>, RunExit> {
        let Attempt { entry, inputs, .. } = attempt;
        // The tool receives one token for every reason to stop.
        let cancel = run.cancel().child_token();
        let _running = self.metrics.running();
        let mut span = attempt_span(self.tracer, run, entry);
        let mut invocation = invocation(run, attempt, cancel.clone());
        if let Some(own) = span.traceparent() {
            invocation.traceparent = Some(own);
        }
        let mut running = pin!(AssertUnwindSafe(entry.stack.clone().oneshot(invocation)).catch_unwind().fuse());
        run.reports().are_recorded(true);
        let (ended, commit) = self.record_reports(run, inputs, running.as_mut()).await;
        run.reports().are_recorded(false);
        cancel.cancel();
        // Drop the work now: the commit of its reports may take longer.
        running.set(Fuse::terminated());
        if !commit.is_terminated() {
            log_unrecorded(run.call(), commit.await);
        }
        if let Some(first) = run.reports().take() {
            Box::pin(self.write_last_reports(run, inputs, first)).await;
        }
        let (end, code) = match ended {
            Ok(Some(answer)) => {
                let result = result_of(run.call(), attempt, answer);
                let failure = result.as_ref().map_or_else(|failure| Some(&**failure), |outcome| outcome.error.as_ref());
                let code = failure.map(|failure| failure.code);
                (Ok(result), code)
            }
            Ok(None) => (Err(RunExit::TakenOver), Some(Code::OutcomeUnknown)),
            Err(_) if run.cancel().is_cancelled() => (Err(Failure::cancelled().into()), Some(Code::Cancelled)),
            Err(_) if run.is_left_at_once() => (Err(RunExit::LeaveQueued), Some(Code::ShuttingDown)),
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
    async fn record_reports(
        &self,
        run: &mut CallRun,
        inputs: &ExecutorInputs,
        mut running: Pin<&mut impl Future<Output = ToolResult>>,
    ) -> (Result<Option<ToolResult>, Interrupt>, Fuse<Commit>) {
        let own_cancel = run.cancel().clone();
        let mut announce = pin!(async { tokio::time::sleep(ANNOUNCE_AFTER).await });
        let mut commit: Fuse<Commit> = Fuse::terminated();
        let mut is_taken = false;
        loop {
            let idle = commit.is_terminated();
            let announced = run.has_announced_start();
            // A detached call with external work stays as it is; the next start continues to wait for its result.
            let (is_left, shutdown) = (run.is_left_at_once(), self.waiter.shutdown);
            let race = Race::new(&own_cancel, shutdown).left_on_drain(is_left, shutdown).work_first();
            let next = async {
                tokio::select! {
                    biased;
                    ended = &mut running => return Some(ended),
                    written = &mut commit, if !idle => {
                        is_taken = written == Err(JournalError::Fenced);
                        log_unrecorded(run.call(), written);
                    }
                    () = &mut announce, if idle && !announced => commit = run.begin_announcement().fuse(),
                    report = run.reports().next(), if idle && announced => {
                        let waiters = run.reports().waiters();
                        let report = inputs.report_without_secrets(report);
                        if let Some(writing) = run.begin_report(report, self.waiter.clock.now()) {
                            commit = acknowledged(writing, waiters).boxed().fuse();
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
    async fn write_last_reports(&self, run: &mut CallRun, inputs: &ExecutorInputs, first: Report) {
        let mut next = Some(first);
        while let Some(report) = next {
            if !run.changes_nothing(&report) {
                let waiters = run.reports().waiters();
                let report = inputs.report_without_secrets(report);
                let writing = run.enqueue_report(report, self.waiter.clock.now()).await;
                if let Some(writing) = writing.filter(|_| !waiters.is_empty()) {
                    self.tasks.spawn(acknowledged(writing, waiters));
                }
            }
            next = run.reports().take();
        }
    }
}

fn invocation(run: &CallRun, attempt: Attempt<'_>, cancel: CancellationToken) -> Invocation {
    let (call, origin, signals) = (run.call(), run.origin(), run.signals());
    let limits = call.limits;
    Invocation {
        id: call.id,
        tenant: call.tenant.clone(),
        allowed: call.allowed.clone(),
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        naming: origin.naming,
        arguments: attempt.inputs.arguments_of(call),
        context: call.context.clone(),
        agent: call.agent.clone(),
        session: call.session.clone(),
        session_snapshot: origin.conversation.clone(),
        attempt: call.attempts,
        timeout_ms: limits.map_or(0, |limits| limits.timeout_ms),
        // A call that is awaited again after a restart keeps its original timeout.
        elapsed_ms: attempt.resumed.map_or(0, |resumed| resumed.elapsed_ms),
        output: limits.map_or_else(Bounds::default, |limits| limits.output()),
        idle_timeout_ms: limits.and_then(|limits| limits.idle_timeout_ms),
        awaits_external: attempt.resumed.is_some(),
        result_slot: signals.posted.clone(),
        traceparent: origin.traceparent.clone(),
        emitter: signals.emitter.clone(),
        cancel,
        redaction: attempt.inputs.redaction.clone(),
    }
}

/// Converts the result of a tool to an outcome, or to a failure that may be retried. Removes secrets.
fn result_of(call: &Call, attempt: Attempt<'_>, result: ToolResult) -> Result<Box<Outcome>, Box<Failure>> {
    let Attempt { entry, inputs, .. } = attempt;
    let failure = match result {
        Ok(Ok(answer)) if let Some(failure) = convert::stated_failure(&call.name, &answer) => {
            // A result is final, even if the caller may repeat the call.
            return Ok(Outcome::failed(inputs.failure_of(call, entry, failure)).into());
        }
        Ok(Ok(answer)) => {
            let outcome = match answer {
                // The tool returned its arguments unchanged, so their JSON text can be reused.
                ToolOutput::Data(value) if Arc::ptr_eq(&value, &call.arguments) => {
                    Outcome::data_as(value, call.arguments_text.clone())
                }
                answer => convert::outcome_of(&call.name, answer),
            };
            return Ok(inputs.without_secrets(outcome).into());
        }
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no panic message");
            Failure::execution(&call.name, format!("the tool panicked: {text}"))
        }
    };
    Err(inputs.failure_of(call, entry, failure).into())
}

/// Acknowledges reports once they are committed, or the database rejects them permanently. After any other failure, the
/// acknowledgement is left to the node that adopts the call.
async fn acknowledged(writing: Commit, waiters: Waiters) -> Result<(), JournalError> {
    let written = writing.await;
    if matches!(written, Ok(()) | Err(JournalError::Refused)) {
        for waiter in waiters {
            // The receiver may have been dropped.
            let _ = waiter.send(());
        }
    }
    written
}

fn log_unrecorded(call: &Call, written: Result<(), JournalError>) {
    if let Err(error) = written {
        tracing::warn!(id = %call.id, %error, "a report of a running call was not recorded");
    }
}

/// Starts the span of an attempt. A remote tool continues its trace.
fn attempt_span(tracer: &Tracer, run: &CallRun, entry: &Entry) -> Span {
    let is_elsewhere = matches!(entry.definition.executor, ExecutorSpec::Http(_));
    let kind = if is_elsewhere { SpanKind::Client } else { SpanKind::Internal };
    let mut span = tracer.span(kind, run.origin().traceparent.as_deref(), || "attempt".to_owned());
    if span.is_on() {
        span.set("gen_ai.tool.name", &entry.name);
        span.set_number("toolpost.attempt", run.call().attempts.into());
    }
    span
}

/// Records the end of an attempt, and its failure if it failed.
fn record_attempt(span: &mut Span, failure: Option<Code>) {
    if let Some(code) = failure.filter(|_| span.is_on()) {
        span.fail(code.as_str());
    }
}
