//! Traces: spans of requests, calls and attempts, exported over OTLP/HTTP. Each service has its own tracer. Without an
//! endpoint, spans are empty.

use std::sync::Arc;

#[cfg_attr(feature = "otel", path = "trace/otlp.rs")]
#[cfg_attr(not(feature = "otel"), path = "trace/none.rs")]
mod backend;

use backend::{Live, Provider};

/// The role of the service in a span.
pub use backend::SpanKind;

/// A tracer, which creates empty spans if tracing is disabled. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Provider>>);

/// A span, which ends when it is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Live>>);

impl Tracer {
    /// Creates a tracer, which exports spans to the endpoint unless that is empty.
    ///
    /// # Errors
    /// Returns an error if the endpoint is invalid, or the program was built without traces.
    pub fn new(endpoint: &str, service_name: &str) -> Result<Self, String> {
        if endpoint.trim().is_empty() {
            return Ok(Self::default());
        }
        Provider::new(endpoint.trim(), service_name).map(|provider| Self(Some(Arc::new(provider))))
    }

    /// Returns `true` if tracing is enabled.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a span. `parent` is a `traceparent` (W3C Trace Context); without a valid parent, the span starts a new
    /// trace.
    #[must_use]
    pub fn span(&self, kind: SpanKind, parent: Option<&str>, name: impl FnOnce() -> String) -> Span {
        Span(self.0.as_ref().map(|provider| Box::new(provider.begin(kind, parent, name()))))
    }

    /// Sends the ended spans, within a time limit, and stops the exporter.
    pub async fn stop(&self) {
        if let Some(provider) = self.0.clone() {
            // Stopping blocks until the exporter's thread ends.
            let _ = tokio::task::spawn_blocking(move || provider.stop()).await;
        }
    }
}

impl Span {
    /// Returns `true` unless the span is empty.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sets a text attribute.
    pub fn set(&mut self, name: &'static str, value: &str) {
        if let Some(live) = &mut self.0 {
            live.set(name, value);
        }
    }

    /// Sets a numeric attribute.
    pub fn set_number(&mut self, name: &'static str, value: i64) {
        if let Some(live) = &mut self.0 {
            live.set_number(name, value);
        }
    }

    /// Marks the span as failed, with a code.
    pub fn fail(&mut self, kind: &str) {
        if let Some(live) = &mut self.0 {
            live.fail(kind);
        }
    }

    /// Returns the `traceparent` for children of the span.
    #[must_use]
    pub fn traceparent(&self) -> Option<Arc<str>> {
        Some(self.0.as_ref()?.traceparent().into())
    }
}
