//! A call as the log, the metrics and the traces see it. Without a collector no span is made.

use std::sync::Arc;

use super::Engine;
use super::attempt::Ended;
use super::prepare::{Job, Next};
use super::recorder::Recorded;
use crate::domain::{Call, ExecutorSpec};
use crate::registry::Entry;
use crate::telemetry::trace::{Span, SpanKind};

/// What OpenTelemetry calls running a tool (semantic conventions for generative AI).
const EXECUTE_TOOL: &str = "execute_tool";

impl Engine {
    /// Runs a job to its end, and returns whether its caller was still waiting for it.
    pub(super) async fn run_to_end(&self, mut job: Box<Job>) -> Recorded {
        let mut span = self.call_span(&job);
        if let Some(own) = span.traceparent() {
            job.traceparent = Some(own);
        }
        let call = &job.call;
        let context = std::mem::take(&mut job.context);
        let context = context.with_call(call.id, &call.call_id, &call.name, job.traceparent.clone());
        context.scope(self.run_and_settle(job, &mut span)).await
    }

    fn call_span(&self, job: &Job) -> Span {
        let call = &job.call;
        // A name that is no tool's may be anything.
        let is_tool = matches!(job.next, Next::Run(_)) || call.limits.is_some();
        let mut span = self.settings.tracer.span(SpanKind::Internal, job.traceparent.as_deref(), || {
            if is_tool { format!("{EXECUTE_TOOL} {}", call.name) } else { EXECUTE_TOOL.to_owned() }
        });
        if span.is_on() {
            span.set("gen_ai.operation.name", EXECUTE_TOOL);
            span.set("gen_ai.tool.name", &call.name);
            span.set("gen_ai.tool.call.id", &call.call_id);
            span.set("toolpost.call.id", &call.id.to_string());
            if let Some(session) = &call.session {
                span.set("gen_ai.conversation.id", session);
            }
        }
        span
    }

    /// One attempt of it: what a tool elsewhere continues.
    pub(super) fn attempt_span(&self, job: &Job, entry: &Entry) -> Span {
        let is_elsewhere = matches!(entry.definition.executor, ExecutorSpec::Http(_));
        let kind = if is_elsewhere { SpanKind::Client } else { SpanKind::Internal };
        let mut span = self.settings.tracer.span(kind, job.traceparent.as_deref(), || "attempt".to_owned());
        if span.is_on() {
            span.set("gen_ai.tool.name", &entry.name);
            span.set_number("toolpost.attempt", job.call.attempts.into());
        }
        span
    }
}

/// How an attempt ended.
pub(super) fn note_attempt(span: &mut Span, ended: &Ended) {
    if !span.is_on() {
        return;
    }
    match ended {
        Ended::With(outcome) => {
            if let Some(failure) = &outcome.error {
                span.fail(failure.code.as_str());
            }
        }
        Ended::Failed(failure) => span.fail(failure.code.as_str()),
        Ended::Cancelled => span.fail("CANCELLED"),
        Ended::Stopping => span.fail("SHUTTING_DOWN"),
        Ended::Taken => span.fail("OUTCOME_UNKNOWN"),
    }
}

/// How a call ended, once that is on disk.
pub(super) fn note_end(span: &mut Span, call: &Arc<Call>) {
    let failure = call.outcome.as_ref().and_then(|outcome| outcome.error.as_ref());
    let code = failure.map_or("", |failure| failure.code.as_str());
    tracing::debug!(
        status = call.status.as_str(),
        code,
        attempts = call.runs(),
        duration_ms = call.duration_ms().unwrap_or_default(),
        "the call has ended"
    );
    if span.is_on() {
        span.set("toolpost.call.status", call.status.as_str());
        span.set_number("toolpost.call.attempts", call.runs().into());
        if failure.is_some() {
            span.fail(code);
        }
    }
}
