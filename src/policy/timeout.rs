//! Stops a run when one of its clocks fires: the future is dropped, and with it the connection or whatever it holds.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::{Layer, Service};

use crate::domain::{Answer, Failure};
use crate::executor::{BoxFuture, Emitter, Invocation};

/// Bounds each attempt by its invocation's `timeout_ms`, and its silence by `idle_timeout_ms`.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutLayer;

impl<S> Layer<S> for TimeoutLayer {
    type Service = TimeoutService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TimeoutService { inner }
    }
}

/// Returns once nothing has been reported for so long.
async fn silence(emitter: &Emitter, idle_ms: Option<u64>) {
    let idle = Duration::from_millis(idle_ms.unwrap_or(u64::MAX));
    let begun = Instant::now();
    loop {
        let due = emitter.last_sign().map_or(begun, |sign| sign.max(begun)) + idle;
        if due <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(due).await;
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
        let (after_ms, idle_ms) = (invocation.timeout_ms, invocation.idle_timeout_ms);
        let (emitter, cancel) = (invocation.emitter.clone(), invocation.cancel.clone());
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
                () = async { silence(&emitter, idle_ms).await }, if idle_ms.is_some() => {
                    cancel.cancel();
                    Err(Failure::timeout(idle_ms.unwrap_or_default(), "idle_timeout_ms"))
                }
            }
        })
    }
}
