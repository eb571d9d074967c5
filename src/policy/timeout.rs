//! Stops a run when its clock fires: the future is dropped, and with it the connection or whatever it holds.

use std::task::{Context, Poll};
use std::time::Duration;

use tower::{Layer, Service};

use crate::domain::{Answer, Failure};
use crate::executor::{BoxFuture, Invocation};

/// Bounds each attempt by its invocation's `timeout_ms`.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutLayer;

impl<S> Layer<S> for TimeoutLayer {
    type Service = TimeoutService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TimeoutService { inner }
    }
}

/// What [`TimeoutLayer`] makes.
#[derive(Debug, Clone)]
pub struct TimeoutService<S> {
    inner: S,
}

impl<S> Service<Invocation> for TimeoutService<S>
where
    S: Service<Invocation, Response = Answer, Error = Failure>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Failure;
    type Future = BoxFuture<Result<Answer, Failure>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, invocation: Invocation) -> Self::Future {
        let (after_ms, cancel) = (invocation.timeout_ms, invocation.cancel.clone());
        let run = self.inner.call(invocation);
        Box::pin(async move {
            tokio::select! {
                biased;
                ended = run => ended,
                // The clock is made only for a run that does not end at once.
                () = async { tokio::time::sleep(Duration::from_millis(after_ms)).await } => {
                    cancel.cancel();
                    Err(Failure::timeout(after_ms, "timeout_ms"))
                }
            }
        })
    }
}
