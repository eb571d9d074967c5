//! The watch of the commits of other nodes.

use super::{Signals, Wakeup};

/// A watch of the commits of other nodes. While it exists, other nodes report their commits to this one. Read once
/// after you create it, because earlier commits were not reported.
#[derive(Debug)]
pub struct CommitSignals(Wakeup);

impl CommitSignals {
    pub(super) fn new(signals: &Signals) -> Self {
        let is_first = !signals.0.receivers.commits.has_receivers();
        let wakeup = signals.0.receivers.commits.wakeup();
        if is_first {
            // A node that learns of its first watcher reports once if it has committed before.
            signals.0.outbox.push(signals.presence());
        }
        Self(wakeup)
    }

    /// Waits until another node may have committed since the previous call, or since this watch was created.
    ///
    /// # Cancel safety
    /// Cancel-safe: no signal is lost.
    pub async fn committed(&mut self) {
        self.0.woken().await;
    }
}
