//! Shortcuts for the most frequent requests: `POST /tool-calls` and `POST /mcp` go directly to their handlers. The router
//! has the same routes, but would clone each boxed layer per request.

use std::convert::Infallible;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use futures_util::future::Either;
use tower::Service;

/// The paths whose requests bypass the router, and their method.
pub(super) const CALLS: &str = "/tool-calls";
pub(super) const MCP: &str = "/mcp";
pub(super) const METHOD: Method = Method::POST;

/// The services for calls, and the router for all other requests.
#[derive(Debug, Clone)]
pub(super) struct FastPath<C, M, R> {
    pub calls: C,
    pub mcp: M,
    pub router: R,
}

impl<C, M, R> Service<Request> for FastPath<C, M, R>
where
    C: Service<Request, Response = Response, Error = Infallible>,
    M: Service<Request, Response = Response, Error = Infallible>,
    R: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<C::Future, Either<M::Future, R::Future>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let Ok(()) = ready!(self.calls.poll_ready(context));
        let Ok(()) = ready!(self.mcp.poll_ready(context));
        self.router.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match request.uri().path() {
            CALLS if *request.method() == METHOD => Either::Left(self.calls.call(request)),
            MCP if *request.method() == METHOD => Either::Right(Either::Left(self.mcp.call(request))),
            _ => Either::Right(Either::Right(self.router.call(request))),
        }
    }
}
