//! The order in which calls run that come one after the other: safe ones together, any other alone and in its turn.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::submission::Mode;

/// A line of calls. The lock is a fair one: whoever comes later waits for those before it that must run alone.
#[derive(Debug, Clone)]
pub struct CallOrder {
    line: Arc<RwLock<()>>,
    mode: Mode,
}

/// A place in the line.
pub struct OrderTicket(Pin<Box<dyn Future<Output = OrderGuard> + Send>>);

/// As long as it is held the call has its turn.
#[derive(Debug)]
pub enum OrderGuard {
    /// Beside others.
    Shared(OwnedRwLockReadGuard<()>),
    /// Alone.
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl CallOrder {
    /// A line with nobody in it.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { line: Arc::default(), mode }
    }

    /// Takes the last place in the line; `None` if the call need not wait for anybody.
    pub async fn enqueue(&self, is_concurrency_safe: bool) -> Option<OrderTicket> {
        let line = self.line.clone();
        let mut turn = match self.mode {
            Mode::Parallel => return None,
            Mode::Auto if is_concurrency_safe => {
                OrderTicket(Box::pin(async { OrderGuard::Shared(line.read_owned().await) }))
            }
            Mode::Auto | Mode::Serial => {
                OrderTicket(Box::pin(async { OrderGuard::Exclusive(line.write_owned().await) }))
            }
        };
        // The place is taken when it is first asked for.
        if let std::task::Poll::Ready(permit) = futures_util::poll!(&mut turn.0) {
            turn.0 = Box::pin(std::future::ready(permit));
        }
        Some(turn)
    }
}

impl OrderTicket {
    /// Waits until it has come.
    pub async fn acquire(self) -> OrderGuard {
        self.0.await
    }
}

impl std::fmt::Debug for OrderTicket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Turn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn safe_calls_run_together_and_others_alone_in_the_order_in_which_they_came() {
        let turns = CallOrder::new(Mode::Auto);
        let (first, second) = (turns.enqueue(true).await.unwrap(), turns.enqueue(true).await.unwrap());
        let (alone, later) = (turns.enqueue(false).await.unwrap(), turns.enqueue(true).await.unwrap());
        let (first, second) = (first.acquire().await, second.acquire().await);
        let (mut alone, mut later) = (Box::pin(alone.acquire()), Box::pin(later.acquire()));
        assert!(futures_util::poll!(&mut later).is_pending(), "it stands behind one that runs alone");
        drop(first);
        assert!(futures_util::poll!(&mut alone).is_pending());
        drop(second);
        let held = alone.await;
        assert!(futures_util::poll!(&mut later).is_pending());
        drop(held);
        later.await;
    }

    #[tokio::test]
    async fn in_parallel_nobody_waits_and_in_series_everybody_does() {
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
