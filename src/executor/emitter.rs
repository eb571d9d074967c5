//! The channel from a running tool to its call: merged status, and a bounded queue of what was emitted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::domain::call::StatusUpdate;
use crate::domain::event::Emission;

/// Memory that emissions may hold which wait to be recorded, in KiB; then the tool has to wait. A larger one takes it all.
const ROOM_KIB: u32 = 4096;
/// The least that one is counted with: no more than 64 wait.
const LEAST_KIB: u32 = 64;

/// The tool's end. Status updates never wait: what is not yet recorded is merged, so they cannot pile up.
#[derive(Debug, Clone)]
pub struct Emitter(Arc<Shared>);

/// The engine's end.
#[derive(Debug)]
pub struct Reports(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    said: Mutex<Said>,
    changed: Notify,
    room: Semaphore,
}

/// What was said and not yet taken.
#[derive(Debug, Default)]
struct Said {
    queue: VecDeque<Waiting>,
    /// When the tool last gave a sign of life.
    last_sign: Option<Instant>,
    /// Said after everything in the queue.
    status: Option<Box<StatusUpdate>>,
}

#[derive(Debug)]
struct Waiting {
    report: Report,
    kib: u32,
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
    let shared = Arc::new(Shared {
        said: Mutex::default(),
        changed: Notify::new(),
        room: Semaphore::const_new(ROOM_KIB as usize),
    });
    (Emitter(shared.clone()), Reports(shared))
}

impl Shared {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Emitter {
    /// Says how the call stands now, or only that the tool is still there. Never blocks.
    pub fn status(&self, update: StatusUpdate) {
        let mut said = self.0.said();
        said.last_sign = Some(Instant::now());
        if !update.is_empty() {
            said.status.get_or_insert_default().absorb(update);
            drop(said);
            self.0.changed.notify_one();
        }
    }

    /// When the tool last reported anything; `None` if it never has.
    #[must_use]
    pub fn last_sign(&self) -> Option<Instant> {
        self.0.said().last_sign
    }

    /// Shows something to whoever watches, after what was said before; waits while too much is unrecorded.
    pub async fn emit(&self, emission: Emission) {
        // Closed once the call has ended; nobody is interested any more.
        let kib = u32::try_from(emission.size() / 1024).unwrap_or(u32::MAX).clamp(LEAST_KIB, ROOM_KIB);
        let Ok(room) = self.0.room.acquire_many(kib).await else { return };
        room.forget();
        let mut said = self.0.said();
        said.last_sign = Some(Instant::now());
        let before = said.status.take().map(|status| Waiting { report: Report::Status(*status), kib: 0 });
        said.queue.extend(before);
        said.queue.push_back(Waiting { report: Report::Emission(emission), kib });
        drop(said);
        self.0.changed.notify_one();
    }

    /// [`Emitter::emit`] for code on a blocking thread.
    pub fn emit_blocking(&self, emission: Emission) {
        tokio::runtime::Handle::current().block_on(self.emit(emission));
    }
}

impl Reports {
    /// The next report; pends for ever once the tool has nothing more to say.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.0.changed.notified().await;
        }
    }

    /// What is there without waiting, in the order in which it was said.
    pub fn take(&mut self) -> Option<Report> {
        let mut said = self.0.said();
        let report = said.queue.pop_front().map(|Waiting { report, kib }| {
            self.0.room.add_permits(kib as usize);
            report
        });
        report.or_else(|| said.status.take().map(|status| Report::Status(*status)))
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.0.room.close();
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
    async fn a_tool_that_shows_too_much_waits_until_it_is_taken() {
        let (emitter, mut reports) = channel();
        let large = || Emission {
            content: vec![crate::domain::ContentBlock::Text("x".repeat(8 << 20))],
            ..Emission::default()
        };
        emitter.emit(large()).await;
        let mut second = std::pin::pin!(emitter.emit(large()));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(reports.take().is_some());
        second.await;
        for _ in 0..ROOM_KIB / LEAST_KIB {
            reports.take();
            emitter.emit(Emission::default()).await;
        }
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
