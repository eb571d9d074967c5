//! The layer that runs each request in its context: it rejects requests by their `Host` and origin, runs large requests on
//! their own threads, and renders problems.

use std::convert::Infallible;
use std::task::{Context as Poller, Poll};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tower::{Layer, Service};
use tower_http::request_id::RequestId;

use super::client_address::ClientAddress;
use super::cors::Origins;
use super::security::REQUEST_ID;
use super::{AppState, Problem, large_requests};
use crate::telemetry::Context;

/// A layer that wraps a service in [`ScopedService`].
#[derive(Clone)]
pub(super) struct ScopeLayer {
    state: AppState,
    origins: Origins,
}

impl ScopeLayer {
    pub fn new(state: AppState, origins: Origins) -> Self {
        Self { state, origins }
    }
}

impl<S> Layer<S> for ScopeLayer {
    type Service = ScopedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ScopedService { inner, scope: self.clone() }
    }
}

/// The service of [`ScopeLayer`].
#[derive(Clone)]
pub(super) struct ScopedService<S> {
    inner: S,
    scope: ScopeLayer,
}

impl<S> Service<Request> for ScopedService<S>
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

    fn call(&mut self, request: Request) -> Self::Future {
        let ScopeLayer { state, origins } = &self.scope;
        let id = id_of(&request);
        if let Err(problem) = state.mcp.hosts.check(&request).and_then(|()| origins.check(&request)) {
            return Box::pin(std::future::ready(Ok(render(problem.into_response(), id))));
        }
        let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
        let large = large_requests::is_large(&request).then(|| (state.large_requests.clone(), id.clone()));
        let context = Context::of_request(id.clone(), client);
        let answer = self.inner.call(request);
        let answered = context.scope(async move { answer.await.map(|response| render(response, id)) });
        match large {
            None => Box::pin(answered),
            Some((large, id)) => Box::pin(async move {
                let ended = || Ok(render(Problem::internal().into_response(), id));
                large.run(answered).await.unwrap_or_else(ended)
            }),
        }
    }
}

/// Returns the id of a request.
pub(super) fn id_of(request: &Request) -> HeaderValue {
    let id = request.extensions().get::<RequestId>().map(|id| id.header_value().clone());
    id.unwrap_or(HeaderValue::from_static("unknown"))
}

/// Writes the body of a problem, and adds the id of the request. An error of the framework, for example for a path that is not
/// UTF-8, becomes a problem.
pub(super) fn render(mut response: Response, id: HeaderValue) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Problem>();
    let is_bare = problem.is_none() && (status.is_client_error() || status.is_server_error()) && !is_json(&response);
    if let Some(problem) = problem.or_else(|| is_bare.then(|| Problem::of_status(status))) {
        let mut written = problem.render(id.to_str().unwrap_or_default());
        // Headers that the router added, such as `Allow`, are kept.
        for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_TYPE) {
            written.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        written.headers_mut().remove(CONTENT_LENGTH);
        response = written;
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Returns `true` for a JSON response. Errors of JSON-RPC are not converted to problems.
fn is_json(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json")
}
