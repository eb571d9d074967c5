//! The order of calls that arrive one after another: concurrency-safe calls share a turn, any other call has its own.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::submission::Mode;

/// A queue of calls. The lock is fair: a call waits for all earlier calls that must run exclusively.
#[derive(Debug, Clone)]
pub struct CallOrder {
    lock: Arc<RwLock<()>>,
    mode: Mode,
}

/// A place in the queue.
pub struct OrderTicket(Pin<Box<dyn Future<Output = OrderGuard> + Send>>);

/// The turn of a call, which ends when the guard is dropped.
#[derive(Debug)]
pub enum OrderGuard {
    /// A turn shared with other concurrency-safe calls.
    Shared(OwnedRwLockReadGuard<()>),
    /// A turn of a single call.
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl CallOrder {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { lock: Arc::default(), mode }
    }

    /// Enters the queue. Returns `None` if the call does not need to wait for others.
    pub async fn enqueue(&self, is_concurrency_safe: bool) -> Option<OrderTicket> {
        let lock = self.lock.clone();
        let mut turn = match self.mode {
            Mode::Parallel => return None,
            Mode::Auto if is_concurrency_safe => {
                OrderTicket(Box::pin(async { OrderGuard::Shared(lock.read_owned().await) }))
            }
            Mode::Auto | Mode::Serial => {
                OrderTicket(Box::pin(async { OrderGuard::Exclusive(lock.write_owned().await) }))
            }
        };
        // The lock assigns the place on the first poll.
        if let std::task::Poll::Ready(permit) = futures_util::poll!(&mut turn.0) {
            turn.0 = Box::pin(std::future::ready(permit));
        }
        Some(turn)
    }
}

impl OrderTicket {
    /// Waits for the turn of the call.
    pub async fn acquire(self) -> OrderGuard {
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
        let turns = CallOrder::new(Mode::Auto);
        let (first, second) = (turns.enqueue(true).await.unwrap(), turns.enqueue(true).await.unwrap());
        let (alone, later) = (turns.enqueue(false).await.unwrap(), turns.enqueue(true).await.unwrap());
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
        let turns = CallOrder::new(Mode::Serial);
        let (first, second) = (turns.enqueue(true).await.unwrap(), turns.enqueue(true).await.unwrap());
        let held = first.acquire().await;
        let mut second = Box::pin(second.acquire());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(held);
        second.await;
    }
}
