//! Instrumentation of calls: log, metrics and traces. Spans are created only if traces are exported.

use std::sync::Arc;

use super::run::CallRun;
use super::state::Planned;
use crate::registry::Entry;
use toolpost_core::domain::{Call, Code, ExecutorSpec};
use toolpost_telemetry::Tracer;
use toolpost_telemetry::trace::{Span, SpanKind};

/// The OpenTelemetry operation name of running a tool (semantic conventions for generative AI).
const EXECUTE_TOOL: &str = "execute_tool";

/// Starts the span of a call.
pub(super) fn call_span(tracer: &Tracer, planned: &Planned) -> Span {
    let (call, traceparent) = (planned.run.call(), planned.run.origin().traceparent.as_deref());
    // A name of an unknown tool is arbitrary text and is not recorded.
    let is_tool = planned.next.entry().is_some() || call.limits.is_some();
    let mut span = tracer.span(SpanKind::Internal, traceparent, || {
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

/// Starts the span of an attempt. A remote tool continues its trace.
pub(super) fn attempt_span(tracer: &Tracer, run: &CallRun, entry: &Entry) -> Span {
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
pub(super) fn record_attempt(span: &mut Span, failure: Option<Code>) {
    if let Some(code) = failure.filter(|_| span.is_on()) {
        span.fail(code.as_str());
    }
}

/// Records the end of a call after its commit.
pub(super) fn record_end(span: &mut Span, call: &Arc<Call>) {
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
