//! The channel from a running tool to its call: merged status updates and a bounded queue of emissions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

use toolpost_core::domain::call::StatusUpdate;
use toolpost_core::domain::event::Emission;

/// Memory for emissions that wait to be recorded, in KiB; at the limit, the tool waits. A larger emission uses all of
/// it.
const MAX_WAITING_KIB: u32 = 4096;
/// Minimum size that an emission is counted with, in KiB, so that at most 64 wait.
const MIN_KIB: u32 = 64;

/// The sender, held by the tool. Status updates never wait: unrecorded updates are merged, so they cannot pile up.
#[derive(Debug, Clone)]
pub struct Emitter(Arc<Shared>);

/// The receiver, held by the engine.
#[derive(Debug)]
pub struct ReportReceiver {
    shared: Arc<Shared>,
    /// Waiters of the received reports.
    waiting: Waiters,
}

/// Resolves once a report is recorded, with an error if it will never be.
pub type Recorded = oneshot::Receiver<()>;

/// Senders to notify once their reports are recorded. Dropping them reports a failure.
pub type Waiters = Vec<oneshot::Sender<()>>;

#[derive(Debug)]
struct Shared {
    buffer: Mutex<ReportBuffer>,
    changed: Notify,
    capacity: Semaphore,
    /// Whether the engine currently records reports.
    is_recorded: AtomicBool,
    /// Whether empty updates are reports as well, because the receiver passes them on.
    has_activity: bool,
}

/// Reports that the engine has not received yet.
#[derive(Debug, Default)]
struct ReportBuffer {
    queue: VecDeque<QueuedReport>,
    /// Time of the last report, including empty ones.
    last_activity: Option<Instant>,
    /// Status updates sent after all queued reports.
    status: Option<Box<StatusUpdate>>,
    /// Waiters of that status.
    status_waiters: Waiters,
}

#[derive(Debug)]
struct QueuedReport {
    report: Report,
    kib: u32,
    waiters: Waiters,
}

/// A report of a tool, as the engine receives it.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// All status updates since the previous report, merged.
    Status(StatusUpdate),
    /// One emission.
    Emission(Emission),
}

/// Creates a connected pair for one run.
#[must_use]
pub fn channel() -> (Emitter, ReportReceiver) {
    connected(false)
}

/// Creates a connected pair whose receiver also gets empty updates, which say only that the tool is still running.
#[must_use]
pub fn forwarding_channel() -> (Emitter, ReportReceiver) {
    connected(true)
}

fn connected(has_activity: bool) -> (Emitter, ReportReceiver) {
    let shared = Arc::new(Shared {
        buffer: Mutex::default(),
        changed: Notify::new(),
        capacity: Semaphore::const_new(MAX_WAITING_KIB as usize),
        is_recorded: AtomicBool::new(false),
        has_activity,
    });
    (Emitter(shared.clone()), ReportReceiver { shared, waiting: Waiters::new() })
}

impl Shared {
    fn buffer(&self) -> MutexGuard<'_, ReportBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Emitter {
    /// Updates the status of the call. An empty update only counts as activity. Never blocks.
    pub fn status(&self, update: StatusUpdate) {
        self.status_for(update, None);
    }

    /// Updates the status and notifies `waiter` once it is recorded, or immediately if the update is empty.
    pub fn status_for(&self, update: StatusUpdate, waiter: Option<oneshot::Sender<()>>) {
        let mut buffer = self.0.buffer();
        buffer.last_activity = Some(Instant::now());
        if self.0.has_activity || !update.is_empty() {
            buffer.status.get_or_insert_default().merge(update);
            buffer.status_waiters.extend(waiter);
            drop(buffer);
            self.0.changed.notify_one();
        } else if let Some(waiter) = waiter {
            // The receiver may have been dropped.
            let _ = waiter.send(());
        }
    }

    /// Returns `true` if the tool is running and its reports are being recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.0.is_recorded.load(Ordering::Acquire)
    }

    /// Returns the time of the last report; `None` if the tool has reported nothing.
    #[must_use]
    pub fn last_activity(&self) -> Option<Instant> {
        self.0.buffer().last_activity
    }

    /// Sends an emission to the call's subscribers after all earlier reports. Waits while too many emissions are
    /// unrecorded.
    pub async fn emit(&self, emission: Emission) {
        self.emit_for(emission, None).await;
    }

    /// Sends an emission like [`Emitter::emit`] and notifies `waiter` once it is recorded.
    pub async fn emit_for(&self, emission: Emission, waiter: Option<oneshot::Sender<()>>) {
        // The semaphore is closed once the call has ended; the emission is dropped then.
        let kib = u32::try_from(emission.size() / 1024).unwrap_or(u32::MAX).clamp(MIN_KIB, MAX_WAITING_KIB);
        let Ok(capacity) = self.0.capacity.acquire_many(kib).await else { return };
        capacity.forget();
        let mut buffer = self.0.buffer();
        buffer.last_activity = Some(Instant::now());
        let waiters = std::mem::take(&mut buffer.status_waiters);
        let before =
            buffer.status.take().map(|status| QueuedReport { report: Report::Status(*status), kib: 0, waiters });
        buffer.queue.extend(before);
        let waiters = waiter.into_iter().collect();
        buffer.queue.push_back(QueuedReport { report: Report::Emission(emission), kib, waiters });
        drop(buffer);
        self.0.changed.notify_one();
    }

    /// Sends an emission like [`Emitter::emit`], from a blocking thread.
    pub fn emit_blocking(&self, emission: Emission) {
        tokio::runtime::Handle::current().block_on(self.emit(emission));
    }
}

impl ReportReceiver {
    /// Waits for the next report; never returns once the tool stops reporting.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.shared.changed.notified().await;
        }
    }

    /// Returns the next report in order of sending; `None` if the queue is empty.
    pub fn take(&mut self) -> Option<Report> {
        let mut buffer = self.shared.buffer();
        if let Some(QueuedReport { report, kib, waiters }) = buffer.queue.pop_front() {
            self.shared.capacity.add_permits(kib as usize);
            self.waiting.extend(waiters);
            return Some(report);
        }
        let status = buffer.status.take()?;
        self.waiting.append(&mut buffer.status_waiters);
        Some(Report::Status(*status))
    }

    /// Removes and returns the waiters of all reports received since the last call.
    pub fn waiters(&mut self) -> Waiters {
        std::mem::take(&mut self.waiting)
    }

    /// Sets whether reports are currently recorded.
    pub fn are_recorded(&self, is_recorded: bool) {
        self.shared.is_recorded.store(is_recorded, Ordering::Release);
    }
}

impl Drop for ReportReceiver {
    fn drop(&mut self) {
        self.are_recorded(false);
        self.shared.capacity.close();
        // Dropping the buffer notifies the waiters that their reports will not be recorded.
        *self.shared.buffer() = ReportBuffer::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unreceived_updates_are_merged() {
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
    async fn empty_updates_are_received_only_if_they_are_passed_on() {
        let (emitter, mut reports) = channel();
        emitter.status(StatusUpdate::default());
        assert_eq!((reports.take(), emitter.last_activity().is_some()), (None, true));
        let (emitter, mut reports) = forwarding_channel();
        emitter.status(StatusUpdate::default());
        emitter.status(StatusUpdate::default());
        assert_eq!(reports.next().await, Report::Status(StatusUpdate::default()));
        assert_eq!(reports.take(), None);
    }

    #[tokio::test]
    async fn emit_waits_while_too_much_is_unreceived() {
        let (emitter, mut reports) = channel();
        let large = || Emission {
            content: vec![toolpost_core::domain::ContentBlock::Text("x".repeat(8 << 20))],
            ..Emission::default()
        };
        emitter.emit(large()).await;
        let mut second = std::pin::pin!(emitter.emit(large()));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(reports.take().is_some());
        second.await;
        for _ in 0..MAX_WAITING_KIB / MIN_KIB {
            reports.take();
            emitter.emit(Emission::default()).await;
        }
    }

    #[tokio::test]
    async fn waiters_are_notified_whether_their_reports_are_recorded() {
        let (emitter, mut reports) = channel();
        let tip = || StatusUpdate { tip: Some("a".into()), ..StatusUpdate::default() };
        let waiters: [_; 4] = std::array::from_fn(|_| oneshot::channel());
        let [(one, first), (two, second), (three, third), (four, fourth)] = waiters;
        emitter.status_for(tip(), Some(one));
        emitter.emit_for(Emission::default(), Some(two)).await;
        emitter.status_for(tip(), Some(three));
        emitter.status_for(StatusUpdate::default(), Some(four));
        assert_eq!(fourth.await, Ok(()), "an empty update needs no record");
        reports.take();
        let waiters = reports.waiters();
        assert_eq!(waiters.len(), 1);
        waiters.into_iter().for_each(|waiter| waiter.send(()).unwrap());
        assert_eq!(first.await, Ok(()));
        reports.take();
        drop(reports.waiters());
        assert!(second.await.is_err(), "received but not recorded");
        drop(reports);
        assert!(third.await.is_err(), "never received");
    }

    #[tokio::test]
    async fn status_after_an_emission_is_received_after_it() {
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
