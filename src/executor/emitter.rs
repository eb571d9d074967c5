//! The channel from a running tool to its call: merged status, and a bounded queue of what was emitted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};
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
pub struct ReportReceiver {
    shared: Arc<Shared>,
    /// Who waits until what was taken is recorded.
    waiting: Waiters,
}

/// Returns once a report is recorded; an error if it will not be.
pub type Recorded = oneshot::Receiver<()>;

/// Those who wait until their reports are recorded. Dropped, they learn that this will not happen.
pub type Waiters = Vec<oneshot::Sender<()>>;

#[derive(Debug)]
struct Shared {
    said: Mutex<ReportBuffer>,
    changed: Notify,
    room: Semaphore,
    /// Whether what is said is recorded soon.
    is_recorded: AtomicBool,
}

/// What was said and not yet taken.
#[derive(Debug, Default)]
struct ReportBuffer {
    queue: VecDeque<QueuedReport>,
    /// When the tool last gave a sign of life.
    last_sign: Option<Instant>,
    /// Said after everything in the queue.
    status: Option<Box<StatusUpdate>>,
    /// Who waits until that status is recorded.
    status_waiters: Waiters,
}

#[derive(Debug)]
struct QueuedReport {
    report: Report,
    kib: u32,
    waiters: Waiters,
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
pub fn channel() -> (Emitter, ReportReceiver) {
    let shared = Arc::new(Shared {
        said: Mutex::default(),
        changed: Notify::new(),
        room: Semaphore::const_new(ROOM_KIB as usize),
        is_recorded: AtomicBool::new(false),
    });
    (Emitter(shared.clone()), ReportReceiver { shared, waiting: Waiters::new() })
}

impl Shared {
    fn said(&self) -> MutexGuard<'_, ReportBuffer> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Emitter {
    /// Says how the call stands now, or only that the tool is still there. Never blocks.
    pub fn status(&self, update: StatusUpdate) {
        self.status_for(update, None);
    }

    /// The same for somebody who waits until it is recorded. Where it says nothing, there is nothing to record.
    pub fn status_for(&self, update: StatusUpdate, waiter: Option<oneshot::Sender<()>>) {
        let mut said = self.0.said();
        said.last_sign = Some(Instant::now());
        if !update.is_empty() {
            said.status.get_or_insert_default().merge(update);
            said.status_waiters.extend(waiter);
            drop(said);
            self.0.changed.notify_one();
        } else if let Some(waiter) = waiter {
            // Its receiver may be gone.
            let _ = waiter.send(());
        }
    }

    /// Whether the tool runs, so that what is said is recorded soon.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.0.is_recorded.load(Ordering::Acquire)
    }

    /// When the tool last reported anything; `None` if it never has.
    #[must_use]
    pub fn last_activity(&self) -> Option<Instant> {
        self.0.said().last_sign
    }

    /// Shows something to whoever watches, after what was said before; waits while too much is unrecorded.
    pub async fn emit(&self, emission: Emission) {
        self.emit_for(emission, None).await;
    }

    /// The same for somebody who waits until it is recorded.
    pub async fn emit_for(&self, emission: Emission, waiter: Option<oneshot::Sender<()>>) {
        // Closed once the call has ended; nobody is interested any more.
        let kib = u32::try_from(emission.size() / 1024).unwrap_or(u32::MAX).clamp(LEAST_KIB, ROOM_KIB);
        let Ok(room) = self.0.room.acquire_many(kib).await else { return };
        room.forget();
        let mut said = self.0.said();
        said.last_sign = Some(Instant::now());
        let waiters = std::mem::take(&mut said.status_waiters);
        let before = said.status.take().map(|status| QueuedReport { report: Report::Status(*status), kib: 0, waiters });
        said.queue.extend(before);
        let waiters = waiter.into_iter().collect();
        said.queue.push_back(QueuedReport { report: Report::Emission(emission), kib, waiters });
        drop(said);
        self.0.changed.notify_one();
    }

    /// [`Emitter::emit`] for code on a blocking thread.
    pub fn emit_blocking(&self, emission: Emission) {
        tokio::runtime::Handle::current().block_on(self.emit(emission));
    }
}

impl ReportReceiver {
    /// The next report; pends for ever once the tool has nothing more to say.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.shared.changed.notified().await;
        }
    }

    /// What is there without waiting, in the order in which it was said.
    pub fn take(&mut self) -> Option<Report> {
        let mut said = self.shared.said();
        if let Some(QueuedReport { report, kib, waiters }) = said.queue.pop_front() {
            self.shared.room.add_permits(kib as usize);
            self.waiting.extend(waiters);
            return Some(report);
        }
        let status = said.status.take()?;
        self.waiting.append(&mut said.status_waiters);
        Some(Report::Status(*status))
    }

    /// Who waits until what was taken since the last look is recorded.
    pub fn waiters(&mut self) -> Waiters {
        std::mem::take(&mut self.waiting)
    }

    /// Says whether what the tool reports is recorded soon.
    pub fn are_recorded(&self, is_recorded: bool) {
        self.shared.is_recorded.store(is_recorded, Ordering::Release);
    }
}

impl Drop for ReportReceiver {
    fn drop(&mut self) {
        self.are_recorded(false);
        self.shared.room.close();
        // Nothing of it will be recorded; those who wait learn it now.
        *self.shared.said() = ReportBuffer::default();
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
    async fn those_who_wait_learn_whether_their_reports_are_recorded() {
        let (emitter, mut reports) = channel();
        let tip = || StatusUpdate { tip: Some("a".into()), ..StatusUpdate::default() };
        let waiters: [_; 4] = std::array::from_fn(|_| oneshot::channel());
        let [(one, first), (two, second), (three, third), (four, fourth)] = waiters;
        emitter.status_for(tip(), Some(one));
        emitter.emit_for(Emission::default(), Some(two)).await;
        emitter.status_for(tip(), Some(three));
        emitter.status_for(StatusUpdate::default(), Some(four));
        assert_eq!(fourth.await, Ok(()), "there is nothing to record");
        reports.take();
        let waiters = reports.waiters();
        assert_eq!(waiters.len(), 1);
        waiters.into_iter().for_each(|waiter| waiter.send(()).unwrap());
        assert_eq!(first.await, Ok(()));
        reports.take();
        drop(reports.waiters());
        assert!(second.await.is_err(), "it was taken and not recorded");
        drop(reports);
        assert!(third.await.is_err(), "it was never taken");
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
