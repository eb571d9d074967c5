//! The order of calls that arrive one after another: concurrency-safe calls share a turn, any other call has its own.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The order in which the calls of a batch run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Adjacent calls of concurrency-safe tools run together; any other call runs alone in its turn.
    #[default]
    Auto,
    /// All calls run at once.
    Parallel,
    /// The calls run one after another.
    Serial,
}

/// The number of permits. A call that runs exclusively acquires all of them.
const ALL: u32 = u32::MAX >> 4;

/// A queue of calls. The semaphore is fair: a call waits for all earlier calls that must run exclusively.
#[derive(Debug, Clone)]
pub struct CallOrder {
    permits: Arc<Semaphore>,
    mode: Mode,
}

/// A place in the queue.
pub struct OrderTicket(BoxFuture<'static, Option<OrderGuard>>);

/// The turn of a call, which ends when the guard is dropped.
pub type OrderGuard = OwnedSemaphorePermit;

impl CallOrder {
    /// Creates an empty queue.
    pub fn new(mode: Mode) -> Self {
        Self { permits: Arc::new(Semaphore::new(ALL as usize)), mode }
    }

    /// Enters the queue. Returns `None` if the call does not need to wait for others.
    pub async fn enqueue(&self, is_concurrency_safe: bool) -> Option<OrderTicket> {
        let permits = match self.mode {
            Mode::Parallel => return None,
            Mode::Auto if is_concurrency_safe => 1,
            Mode::Auto | Mode::Serial => ALL,
        };
        // The semaphore is never closed.
        let mut acquiring = self.permits.clone().acquire_many_owned(permits).map(Result::ok).boxed();
        // The semaphore assigns the place on the first poll.
        if let std::task::Poll::Ready(guard) = futures_util::poll!(&mut acquiring) {
            acquiring = ready(guard).boxed();
        }
        Some(OrderTicket(acquiring))
    }
}

impl OrderTicket {
    /// Waits for the turn of the call.
    pub async fn acquire(self) -> Option<OrderGuard> {
        self.0.await
    }
}

impl std::fmt::Debug for OrderTicket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OrderTicket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn safe_calls_share_a_turn_and_others_run_alone_in_order() {
        let order = CallOrder::new(Mode::Auto);
        let (first, second) = (order.enqueue(true).await.unwrap(), order.enqueue(true).await.unwrap());
        let (alone, later) = (order.enqueue(false).await.unwrap(), order.enqueue(true).await.unwrap());
        let (first, second) = (first.acquire().await, second.acquire().await);
        let (mut alone, mut later) = (Box::pin(alone.acquire()), Box::pin(later.acquire()));
        assert!(futures_util::poll!(&mut later).is_pending(), "it waits for an exclusive call");
        drop(first);
        assert!(futures_util::poll!(&mut alone).is_pending());
        drop(second);
        let held = alone.await;
        assert!(futures_util::poll!(&mut later).is_pending());
        drop(held);
        later.await;
    }

    #[tokio::test]
    async fn parallel_calls_never_wait_and_serial_calls_always_do() {
        assert!(CallOrder::new(Mode::Parallel).enqueue(false).await.is_none());
        let order = CallOrder::new(Mode::Serial);
        let (first, second) = (order.enqueue(true).await.unwrap(), order.enqueue(true).await.unwrap());
        let held = first.acquire().await;
        let mut second = Box::pin(second.acquire());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(held);
        second.await;
    }
}
