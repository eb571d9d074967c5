//! One job to its end: record where that must come first, run, convert, check, settle.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::Engine;
use super::prepare::{Job, Next};
use super::recorder::{Recorded, Recorder};
use crate::domain::event::{EventKind, Reported};
use crate::domain::tool::OutputCheck;
use crate::domain::{Call, Failure, Outcome, convert};
use crate::events::render;
use crate::executor::emitter::{self, Report};
use crate::executor::{Emitter, Invocation, Outside};
use crate::registry::Entry;
use crate::store::journal::Change;

/// How long a read-only call may run before watchers are told that it does. A shorter one is written once, at its end.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(10);

impl Engine {
    /// Returns whether its caller was still waiting for its end.
    pub(super) async fn run_to_end(&self, job: Job) -> Recorded {
        let Job { mut call, next, mut recorder, traceparent } = job;
        let outcome = match next {
            Next::Refuse(failure) => (*failure).into(),
            Next::Run(entry) => self.start_and_run(&mut call, &entry, &mut recorder, traceparent).await,
        };
        if let Err(error) = call.settle(outcome, self.clock.now()) {
            tracing::error!(id = %call.id, %error, "a call was settled twice");
        } else {
            recorder.settle(call).await;
        }
        recorder.end()
    }

    /// A tool that is not read-only starts only after its start is on disk: what a crash leaves behind is then known.
    async fn start_and_run(
        &self,
        call: &mut Call,
        entry: &Arc<Entry>,
        recorder: &mut Recorder,
        traceparent: Option<Arc<str>>,
    ) -> Outcome {
        if let Err(error) = call.start(self.clock.now()) {
            return Failure::execution(&call.name, error.to_string()).into();
        }
        if !entry.definition.annotations.read_only {
            let change = recorder.change(call);
            match recorder.write(change).await {
                Ok(Recorded::InTime) => {}
                Ok(Recorded::Late) => {
                    call.never_ran();
                    return Failure::overloaded("The call could not be recorded in time and was not run").into();
                }
                Err(error) => return Failure::overloaded(&format!("The call was not run: {error}")).into(),
            }
        }
        let outcome = self.run(call, entry, recorder, traceparent).await;
        check_output(entry, outcome)
    }

    /// Runs the tool; what it reports meanwhile is merged into the call, written and so told.
    async fn run(
        &self,
        call: &mut Call,
        entry: &Arc<Entry>,
        recorder: &mut Recorder,
        traceparent: Option<Arc<str>>,
    ) -> Outcome {
        let (emitter, mut reports) = emitter::channel();
        let cancel = CancellationToken::new();
        let invocation = invocation(call, emitter, cancel.clone(), traceparent);
        let mut running = pin!(AssertUnwindSafe(entry.stack.clone().oneshot(invocation)).catch_unwind());
        let mut announce = pin!(async { tokio::time::sleep(ANNOUNCE_AFTER).await });
        // One change at a time is under way; what is reported meanwhile gathers, so a chatty tool costs no more.
        let journal = recorder.journal().clone();
        let mut writing = pin!(Fuse::terminated());
        let ended = loop {
            let idle = writing.is_terminated();
            tokio::select! {
                biased;
                ended = &mut running => break ended,
                () = self.stop.cancelled() => {
                    cancel.cancel();
                    return Failure::shutting_down().into();
                }
                written = &mut writing, if !idle => note_unwritten(call, written),
                () = &mut announce, if idle && !recorder.has_announced_start() => {
                    writing.set(journal.write(recorder.change(call)).fuse());
                }
                report = reports.next(), if idle && recorder.has_announced_start() => {
                    if let Some(change) = apply(call, report, recorder) {
                        writing.set(journal.write(change).fuse());
                    }
                }
            }
        };
        if !writing.is_terminated() {
            note_unwritten(call, writing.await);
        }
        let mut last_change = None;
        while let Some(report) = reports.take() {
            if !recorder.has_announced_start() {
                last_change = Some(journal.enqueue(recorder.change(call)).await);
            }
            if let Some(change) = apply(call, report, recorder) {
                last_change = Some(journal.enqueue(change).await);
            }
        }
        // The end of the call follows these in the same queue, so its commit is theirs as well.
        drop(last_change);
        match ended {
            Ok(Ok(answer)) => convert::outcome_of(&call.name, answer),
            Ok(Err(failure)) => failure.into(),
            Err(panic) => {
                Failure::execution(&call.name, format!("the tool panicked: {}", panic_message(&*panic))).into()
            }
        }
    }
}

fn invocation(call: &Call, emitter: Emitter, cancel: CancellationToken, traceparent: Option<Arc<str>>) -> Invocation {
    Invocation {
        id: call.id,
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        arguments: call.effective_arguments.clone().unwrap_or_default(),
        attempt: call.attempts,
        timeout_ms: call.limits.map_or(0, |limits| limits.timeout_ms),
        idle_timeout_ms: call.limits.and_then(|limits| limits.idle_timeout_ms),
        outside: Outside::default(),
        traceparent,
        emitter,
        cancel,
    }
}

/// Merges a report into the call; the change that tells of it.
fn apply(call: &mut Call, report: Report, recorder: &Recorder) -> Option<Change> {
    let (kind, emission) = match report {
        Report::Status(update) => {
            call.update(update).ok()?;
            (EventKind::Status, None)
        }
        Report::Emission(emission) => {
            call.update(crate::domain::call::StatusUpdate::default()).ok()?;
            (EventKind::Progress, Some(emission))
        }
    };
    let data = emission.map_or_else(|| render::status_update(call), |emission| render::emission(call, &emission));
    Some(recorder.reported(call, Reported { seq: call.last_seq, kind, data }))
}

fn note_unwritten(call: &Call, written: Result<(), crate::store::journal::JournalError>) {
    if let Err(error) = written {
        tracing::warn!(id = %call.id, %error, "a report of a running call was not recorded");
    }
}

/// Holds a good result against the output schema, if the tool has one.
fn check_output(entry: &Entry, mut outcome: Outcome) -> Outcome {
    let Some(schema) = entry.output.as_ref().filter(|_| !outcome.is_error()) else { return outcome };
    let text = serde_json::Value::String(outcome.output.clone());
    let violations = schema.violations(outcome.structured.as_deref().unwrap_or(&text));
    if violations.is_empty() {
        return outcome;
    }
    let violations = serde_json::json!(violations);
    match entry.definition.output_check {
        OutputCheck::Warn => {
            outcome.metadata.insert("output_violations".into(), violations);
            outcome
        }
        OutputCheck::Strict => {
            let details = std::mem::take(&mut outcome.details);
            Outcome { details, ..Failure::result_invalid(&entry.name, violations).into() }
        }
    }
}

/// What a panic said, if it said anything.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no message")
}
