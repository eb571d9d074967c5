//! Shortcuts for the most frequent requests: `POST /tool-calls` and `POST /mcp` go directly to their handlers. The router
//! has the same routes, but would clone each boxed layer per request. And requests whose layers differ from those of the
//! router.

use std::convert::Infallible;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::response::Response;
use futures_util::future::Either;
use tower::Service;

use super::compression;
use super::paths::{CALLS, IMPORT, MCP, METHOD, MODEL_STREAM};

/// The services for calls, and the routers for all other requests.
#[derive(Debug, Clone)]
pub(super) struct FastPath<C, M, R, Z> {
    pub calls: C,
    pub mcp: M,
    pub router: R,
    /// The routes [`IMPORT`] and [`MODEL_STREAM`].
    pub large_bodies: R,
    /// The router for responses that may be compressed.
    pub compressed: Z,
}

impl<C, M, R, Z> Service<Request> for FastPath<C, M, R, Z>
where
    C: Service<Request, Response = Response, Error = Infallible>,
    M: Service<Request, Response = Response, Error = Infallible>,
    R: Service<Request, Response = Response, Error = Infallible>,
    Z: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Either<C::Future, M::Future>, Either<R::Future, Z::Future>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let Ok(()) = ready!(self.calls.poll_ready(context));
        let Ok(()) = ready!(self.mcp.poll_ready(context));
        let Ok(()) = ready!(self.large_bodies.poll_ready(context));
        let Ok(()) = ready!(self.compressed.poll_ready(context));
        self.router.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if *request.method() == METHOD {
            return match request.uri().path() {
                CALLS => Either::Left(Either::Left(self.calls.call(request))),
                MCP => Either::Left(Either::Right(self.mcp.call(request))),
                IMPORT | MODEL_STREAM => Either::Right(Either::Left(self.large_bodies.call(request))),
                _ => Either::Right(Either::Left(self.router.call(request))),
            };
        }
        Either::Right(match compression::is_allowed(&request) {
            true => Either::Right(self.compressed.call(request)),
            false => Either::Left(self.router.call(request)),
        })
    }
}
