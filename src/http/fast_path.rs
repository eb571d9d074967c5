//! A shortcut for the most frequent request: `POST /tool-calls` goes directly to its handler. The router has the same
//! route, but would clone each boxed layer per request.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use futures_util::future::Either;
use tower::Service;

/// The path whose requests bypass the router.
pub(super) const PATH: &str = "/tool-calls";
pub(super) const METHOD: Method = Method::POST;

/// The service for calls and the router for all other requests.
#[derive(Debug, Clone)]
pub(super) struct FastPath<C, R> {
    pub calls: C,
    pub router: R,
}

impl<C, R> Service<Request> for FastPath<C, R>
where
    C: Service<Request, Response = Response, Error = Infallible>,
    R: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<C::Future, R::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.calls.poll_ready(context) {
            Poll::Ready(Ok(())) => self.router.poll_ready(context),
            other => other,
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if *request.method() == METHOD && request.uri().path() == PATH {
            Either::Left(self.calls.call(request))
        } else {
            Either::Right(self.router.call(request))
        }
    }
}
