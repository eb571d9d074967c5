//! The order in which calls run that come one after the other: safe ones together, any other alone and in its turn.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::submission::Mode;

/// A line of calls. The lock is a fair one: whoever comes later waits for those before it that must run alone.
#[derive(Debug, Clone)]
pub struct Turns {
    line: Arc<RwLock<()>>,
    mode: Mode,
}

/// A place in the line.
pub struct Turn(Pin<Box<dyn Future<Output = Permit> + Send>>);

/// As long as it is held the call has its turn.
#[derive(Debug)]
pub enum Permit {
    /// Beside others.
    Shared(OwnedRwLockReadGuard<()>),
    /// Alone.
    Alone(OwnedRwLockWriteGuard<()>),
}

impl Turns {
    /// A line with nobody in it.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { line: Arc::default(), mode }
    }

    /// Takes the last place in the line; `None` if the call need not wait for anybody.
    pub async fn take(&self, is_concurrency_safe: bool) -> Option<Turn> {
        let line = self.line.clone();
        let mut turn = match self.mode {
            Mode::Parallel => return None,
            Mode::Auto if is_concurrency_safe => Turn(Box::pin(async { Permit::Shared(line.read_owned().await) })),
            Mode::Auto | Mode::Serial => Turn(Box::pin(async { Permit::Alone(line.write_owned().await) })),
        };
        // The place is taken when it is first asked for.
        if let std::task::Poll::Ready(permit) = futures_util::poll!(&mut turn.0) {
            turn.0 = Box::pin(std::future::ready(permit));
        }
        Some(turn)
    }
}

impl Turn {
    /// Waits until it has come.
    pub async fn come(self) -> Permit {
        self.0.await
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Turn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn safe_calls_run_together_and_others_alone_in_the_order_in_which_they_came() {
        let turns = Turns::new(Mode::Auto);
        let (first, second) = (turns.take(true).await.unwrap(), turns.take(true).await.unwrap());
        let (alone, later) = (turns.take(false).await.unwrap(), turns.take(true).await.unwrap());
        let (first, second) = (first.come().await, second.come().await);
        let (mut alone, mut later) = (Box::pin(alone.come()), Box::pin(later.come()));
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
        assert!(Turns::new(Mode::Parallel).take(false).await.is_none());
        let turns = Turns::new(Mode::Serial);
        let (first, second) = (turns.take(true).await.unwrap(), turns.take(true).await.unwrap());
        let held = first.come().await;
        let mut second = Box::pin(second.come());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(held);
        second.await;
    }
}
