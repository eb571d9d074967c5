//! Traces: spans of requests, calls and attempts, sent over OTLP/HTTP where that is set, each service its own. Where it is
//! not, there is no tracer, and a span is nothing.

use std::sync::Arc;

use crate::config::Telemetry;

#[cfg_attr(feature = "otel", path = "trace/otlp.rs")]
#[cfg_attr(not(feature = "otel"), path = "trace/none.rs")]
mod backend;

use backend::{Live, Provider};

/// Makes spans, or none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Provider>>);

/// Which side of the work a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that somebody else made.
    Server,
    /// A request that we make.
    Client,
    /// Work of our own.
    Internal,
}

/// A piece of work; it ends when it is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Live>>);

impl Tracer {
    /// With an exporter, if the settings name an endpoint.
    ///
    /// # Errors
    /// If the endpoint is none, or this program was built without traces.
    pub fn new(settings: &Telemetry) -> Result<Self, String> {
        if settings.otlp_endpoint.trim().is_empty() {
            return Ok(Self::default());
        }
        Provider::new(settings).map(|provider| Self(Some(Arc::new(provider))))
    }

    /// Whether there are spans.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span. `parent` is a `traceparent` (W3C Trace Context); without one that is good, it is the first of its
    /// trace.
    #[must_use]
    pub fn span(&self, kind: SpanKind, parent: Option<&str>, name: impl FnOnce() -> String) -> Span {
        Span(self.0.as_ref().map(|provider| Box::new(provider.begin(kind, parent, name()))))
    }

    /// Sends what has ended, within a bound, and no more after it.
    pub async fn stop(&self) {
        if let Some(provider) = self.0.clone() {
            // It waits for its thread.
            let _ = tokio::task::spawn_blocking(move || provider.stop()).await;
        }
    }
}

impl Span {
    /// Whether it is one.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Says a fact about the work.
    pub fn set(&mut self, name: &'static str, value: &str) {
        if let Some(live) = &mut self.0 {
            live.set(name, value);
        }
    }

    /// Says a number about the work.
    pub fn set_number(&mut self, name: &'static str, value: i64) {
        if let Some(live) = &mut self.0 {
            live.set_number(name, value);
        }
    }

    /// The work has failed; `kind` is what at, as a code.
    pub fn fail(&mut self, kind: &str) {
        if let Some(live) = &mut self.0 {
            live.fail(kind);
        }
    }

    /// What its children name as their parent.
    #[must_use]
    pub fn traceparent(&self) -> Option<Arc<str>> {
        Some(self.0.as_ref()?.traceparent().into())
    }
}
