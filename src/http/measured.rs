//! Around each route: requests are counted by its template, traced, and told to the log at `debug`.

use std::convert::Infallible;
use std::task::{Context as Poller, Poll};

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderValue;
use axum::response::Response;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};
use utoipa::openapi::OpenApi;

use super::client_address::ClientAddress;
use crate::telemetry::Tracer;
use crate::telemetry::metrics::{Metrics, Ongoing, Routes};
use crate::telemetry::trace::{Span, SpanKind};

/// W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// Puts [`Measured`] around each route.
#[derive(Debug, Clone)]
pub(super) struct Measure {
    routes: Routes,
    tracer: Tracer,
}

impl Measure {
    /// For the routes of this document.
    pub fn new(metrics: &Metrics, tracer: Tracer, document: &OpenApi) -> Self {
        let routes = document.paths.paths.iter().map(|(path, item)| {
            let methods = [
                ("GET", &item.get),
                ("PUT", &item.put),
                ("POST", &item.post),
                ("DELETE", &item.delete),
                ("OPTIONS", &item.options),
                ("HEAD", &item.head),
                ("PATCH", &item.patch),
            ];
            let there = methods.into_iter().filter(|(_, operation)| operation.is_some());
            (path.as_str(), there.map(|(method, _)| method.to_owned()).collect())
        });
        Self { routes: metrics.routes(routes), tracer }
    }
}

impl<S> Layer<S> for Measure {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Measured<S> {
        Measured { inner, measure: self.clone() }
    }
}

/// See [`Measure`].
#[derive(Debug, Clone)]
pub(super) struct Measured<S> {
    inner: S,
    measure: Measure,
}

impl<S> Service<Request> for Measured<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(poller)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let template = request.extensions().get::<MatchedPath>();
        let ongoing = self.measure.routes.begin(request.method().as_str(), template.map(MatchedPath::as_str));
        let mut span = begin_span(&self.measure.tracer, &mut request, &ongoing);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(response) = &answer {
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
            answer
        })
    }
}

/// The request's span, which continues the caller's trace. From here on its `traceparent` is the request's: whatever is
/// done for it, and whoever is asked for it, continues from there.
fn begin_span(tracer: &Tracer, request: &mut Request, ongoing: &Ongoing) -> Span {
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
