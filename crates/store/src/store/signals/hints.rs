//! The receiving ends of signals.

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// Number of hints that a slow receiver can be behind. Beyond it, it receives [`Hint::Any`].
const CAPACITY: usize = 256;

/// The sender of a signal without arguments.
#[derive(Debug)]
pub(super) struct Wakeups(watch::Sender<()>);

impl Default for Wakeups {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Wakeups {
    pub fn wake(&self) {
        self.0.send_replace(());
    }

    pub fn wakeup(&self) -> Wakeup {
        Wakeup(self.0.subscribe())
    }

    pub fn has_receivers(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// The receiver of a signal without arguments. Signals that arrive before the receiver waits are combined.
#[derive(Debug, Clone)]
pub struct Wakeup(watch::Receiver<()>);

impl Wakeup {
    /// Waits for a signal since the previous call, or since this receiver was created.
    ///
    /// # Cancel safety
    /// Cancel-safe: no signal is lost.
    pub async fn woken(&mut self) {
        if self.0.changed().await.is_err() {
            // The sender is gone, so no signal will come.
            std::future::pending().await
        }
    }
}

/// The content of a signal with an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint<T> {
    /// This item has changed.
    Of(T),
    /// Any item may have changed.
    Any,
}

/// The sender of a signal with an argument.
#[derive(Debug)]
pub(super) struct Hints<T>(broadcast::Sender<Hint<T>>);

impl<T: Clone> Default for Hints<T> {
    fn default() -> Self {
        Self(broadcast::Sender::new(CAPACITY))
    }
}

impl<T: Clone> Hints<T> {
    pub fn publish(&self, hint: Hint<T>) {
        // Fails without receivers.
        let _ = self.0.send(hint);
    }

    pub fn subscribe(&self) -> HintReceiver<T> {
        HintReceiver(self.0.subscribe())
    }
}

/// The receiver of a signal with an argument.
#[derive(Debug)]
pub struct HintReceiver<T>(broadcast::Receiver<Hint<T>>);

impl<T: Clone> HintReceiver<T> {
    /// Waits for the next hint. A receiver that was too slow gets [`Hint::Any`].
    ///
    /// # Cancel safety
    /// Cancel-safe: no hint is lost.
    pub async fn recv(&mut self) -> Hint<T> {
        match self.0.recv().await {
            Ok(hint) => hint,
            Err(RecvError::Lagged(_)) => Hint::Any,
            // The sender is gone, so no hint will come.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_receiver_gets_any() {
        let hints = Hints::default();
        let mut receiver = hints.subscribe();
        (0..=CAPACITY).for_each(|item| hints.publish(Hint::Of(item)));
        assert_eq!(receiver.recv().await, Hint::Any);
        assert_eq!(receiver.recv().await, Hint::Of(1));
    }

    #[tokio::test]
    async fn signals_before_the_wait_are_combined() {
        let wakeups = Wakeups::default();
        let mut wakeup = wakeups.wakeup();
        wakeups.wake();
        wakeups.wake();
        wakeup.woken().await;
        let second = tokio::time::timeout(std::time::Duration::ZERO, wakeup.woken());
        assert!(second.await.is_err());
    }
}
