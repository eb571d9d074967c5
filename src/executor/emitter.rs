//! The channel from a running tool to its call: merged status, and a bounded queue of what was emitted.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::domain::call::StatusUpdate;
use crate::domain::event::Emission;

/// Reports that may wait to be recorded before the tool has to.
const WAITING: usize = 64;

/// The tool's end. Status updates never wait: what is not yet recorded is merged, so they cannot pile up.
#[derive(Debug, Clone)]
pub struct Emitter {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Report>,
}

/// The engine's end.
#[derive(Debug)]
pub struct Reports {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Report>,
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
    let (sender, queue) = mpsc::channel(WAITING);
    (Emitter { shared: shared.clone(), queue: sender }, Reports { shared, queue })
}

impl Shared {
    /// The updates that are not yet on their way, if there are any.
    fn take(&self) -> Option<Report> {
        let update = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        (!update.is_empty()).then_some(Report::Status(update))
    }
}

impl Emitter {
    /// Says how the call stands now. Never blocks.
    pub fn status(&self, update: StatusUpdate) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).absorb(update);
        self.shared.changed.notify_one();
    }

    /// Shows something to whoever watches, after what was said before; waits while too much is unrecorded.
    pub async fn emit(&self, emission: Emission) {
        for report in self.shared.take().into_iter().chain([Report::Emission(emission)]) {
            // A closed queue means that the call has ended; nobody is interested any more.
            let _ = self.queue.send(report).await;
        }
    }

    /// [`Emitter::emit`] for code on a blocking thread.
    pub fn emit_blocking(&self, emission: Emission) {
        for report in self.shared.take().into_iter().chain([Report::Emission(emission)]) {
            let _ = self.queue.blocking_send(report);
        }
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
                report = self.queue.recv(), if !self.queue.is_closed() => {
                    if let Some(report) = report {
                        return report;
                    }
                }
            }
        }
    }

    /// What is there without waiting, in the order in which it was said.
    pub fn take(&mut self) -> Option<Report> {
        self.queue.try_recv().ok().or_else(|| self.shared.take())
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

    #[tokio::test]
    async fn what_is_said_after_an_emission_comes_after_it() {
        let (emitter, mut reports) = channel();
        let tip = |text: &str| StatusUpdate { tip: Some(text.into()), ..StatusUpdate::default() };
        emitter.status(tip("a"));
        emitter.emit(Emission::default()).await;
        emitter.status(tip("b"));
        assert_eq!(reports.take(), Some(Report::Status(tip("a"))));
        assert_eq!(reports.take(), Some(Report::Emission(Emission::default())));
        assert_eq!(reports.take(), Some(Report::Status(tip("b"))));
    }
}
