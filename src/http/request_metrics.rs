//! A layer around each route that counts requests by route template, traces them, and logs them at `debug`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, ready};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use pin_project_lite::pin_project;
use tower::Service;

use super::auth::requirements::RequirementTable;
use super::client_address::ClientAddress;
use super::request_headers::TRACEPARENT;
use crate::telemetry::Tracer;
use crate::telemetry::metrics::{InFlightRequest, Metrics, Route, Routes};
use crate::telemetry::trace::{Span, SpanKind};

/// A layer that wraps routes in [`MeasuredService`].
#[derive(Debug, Clone)]
pub(super) struct MeasureLayer {
    routes: Routes,
    /// The route, if the layer wraps a single one.
    one: Option<Arc<Route>>,
    tracer: Tracer,
}

impl MeasureLayer {
    /// Creates a layer for all routes of the table.
    pub fn new(metrics: &Metrics, tracer: Tracer, table: &RequirementTable) -> Self {
        let routes = table.routes().map(|(path, methods)| (path, methods.map(Method::to_string).collect()));
        Self { routes: metrics.routes(routes), one: None, tracer }
    }

    /// Returns a layer for a single route.
    pub fn at(&self, path: &str, method: &Method) -> Self {
        Self { one: Some(self.routes.one(method.as_str(), Some(path))), ..self.clone() }
    }

    /// Wraps a service.
    pub fn service<S>(&self, inner: S) -> MeasuredService<S> {
        MeasuredService { inner, measure: self.clone() }
    }

    fn begin(&self, request: &Request) -> InFlightRequest {
        match &self.one {
            Some(route) => route.clone().begin(),
            None => {
                let template = request.extensions().get::<MatchedPath>();
                self.routes.one(request.method().as_str(), template.map(MatchedPath::as_str)).begin()
            }
        }
    }
}

/// The service of [`MeasureLayer`].
#[derive(Debug, Clone)]
pub(super) struct MeasuredService<S> {
    inner: S,
    measure: MeasureLayer,
}

impl<S> Service<Request> for MeasuredService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MeasuredResponse<S::Future>;

    fn poll_ready(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(poller)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let ongoing = self.measure.begin(&request);
        let span = begin_span(&self.measure.tracer, &mut request, &ongoing);
        MeasuredResponse { inner: self.inner.call(request), ongoing: Some(ongoing), span }
    }
}

pin_project! {
    /// A request in progress. It is counted once the head of its response is ready, or when it is dropped.
    pub(super) struct MeasuredResponse<F> {
        #[pin]
        inner: F,
        ongoing: Option<InFlightRequest>,
        span: Span,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for MeasuredResponse<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.inner.poll(poller));
        if let Some(ongoing) = this.ongoing.take() {
            record(ongoing, std::mem::take(this.span), &response);
        }
        Poll::Ready(Ok(response))
    }
}

fn record(ongoing: InFlightRequest, mut span: Span, response: &Response) {
    let status = response.status().as_u16();
    tracing::debug!(route = ongoing.route(), status, duration_ms = ongoing.elapsed_ms(), "answered");
    if span.is_on() {
        span.set_number("http.response.status_code", status.into());
        if response.status().is_server_error() {
            span.fail(response.status().as_str());
        }
    }
    ongoing.answered(status);
}

/// Starts the span of the request, which continues the caller's trace.
///
/// It replaces the `traceparent` of the request, so that all further spans and outgoing requests continue from this
/// span.
fn begin_span(tracer: &Tracer, request: &mut Request, ongoing: &InFlightRequest) -> Span {
    if !tracer.is_on() {
        return Span::default();
    }
    let parent = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    let method = request.method().as_str();
    let mut span = tracer.span(SpanKind::Server, parent, || format!("{method} {}", ongoing.route()));
    span.set("http.request.method", method);
    span.set("http.route", ongoing.route());
    span.set("url.path", request.uri().path());
    if let Some(ClientAddress(client)) = request.extensions().get() {
        span.set("client.address", &client.to_string());
    }
    let own = span.traceparent().and_then(|own| HeaderValue::from_str(&own).ok());
    if let Some(own) = own {
        request.headers_mut().insert(TRACEPARENT, own);
    }
    span
}
