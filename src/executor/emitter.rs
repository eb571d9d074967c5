//! The channel from a running tool to its call: merged status, and a bounded queue of emissions.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::domain::call::StatusUpdate;
use crate::domain::event::Emission;

/// Emissions that may wait to be recorded before the tool has to.
const WAITING_EMISSIONS: usize = 64;

/// The tool's end. Status updates never wait: what is not yet recorded is merged, so they cannot pile up.
#[derive(Debug, Clone)]
pub struct Emitter {
    shared: Arc<Shared>,
    emissions: mpsc::Sender<Emission>,
}

/// The engine's end.
#[derive(Debug)]
pub struct Reports {
    shared: Arc<Shared>,
    emissions: mpsc::Receiver<Emission>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<StatusUpdate>,
    changed: Notify,
}

/// What a tool has reported since the last look.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// All status updates, merged.
    Status(StatusUpdate),
    /// One emission.
    Emission(Emission),
}

/// A connected pair for one run.
#[must_use]
pub fn channel() -> (Emitter, Reports) {
    let shared = Arc::new(Shared::default());
    let (sender, emissions) = mpsc::channel(WAITING_EMISSIONS);
    (Emitter { shared: shared.clone(), emissions: sender }, Reports { shared, emissions })
}

impl Emitter {
    /// Says how the call stands now. Never blocks.
    pub fn status(&self, update: StatusUpdate) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).absorb(update);
        self.shared.changed.notify_one();
    }

    /// Shows something to whoever watches; waits while too much is unrecorded.
    pub async fn emit(&self, emission: Emission) {
        // A closed channel means that the call has ended; nobody is interested any more.
        let _ = self.emissions.send(emission).await;
    }

    /// [`Emitter::emit`] for code on a blocking thread.
    pub fn emit_blocking(&self, emission: Emission) {
        let _ = self.emissions.blocking_send(emission);
    }
}

impl Reports {
    /// The next report; pends for ever once the tool's end is gone and everything was taken.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            tokio::select! {
                () = self.shared.changed.notified() => {}
                emission = self.emissions.recv(), if !self.emissions.is_closed() => {
                    if let Some(emission) = emission {
                        return Report::Emission(emission);
                    }
                }
            }
        }
    }

    /// What is there without waiting. A status that was set before an emission is told first.
    pub fn take(&mut self) -> Option<Report> {
        let update = std::mem::take(&mut *self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner));
        if !update.is_empty() {
            return Some(Report::Status(update));
        }
        self.emissions.try_recv().ok().map(Report::Emission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn updates_merge_while_nobody_looks_and_nothing_is_lost() {
        let (emitter, mut reports) = channel();
        emitter.status(StatusUpdate { tip: Some("a".into()), ..StatusUpdate::default() });
        emitter.status(StatusUpdate { tip: Some("b".into()), ..StatusUpdate::default() });
        emitter.emit(Emission::default()).await;
        assert_eq!(
            reports.next().await,
            Report::Status(StatusUpdate { tip: Some("b".into()), ..StatusUpdate::default() })
        );
        assert_eq!(reports.next().await, Report::Emission(Emission::default()));
        assert_eq!(reports.take(), None);
    }
}
