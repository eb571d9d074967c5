//! The signals that wait to be sent. Identical signals are combined, and their number is bounded.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::kind::Signal;

/// Minimum interval between two sends. Signals that come meanwhile are sent together; others are sent at once.
const COALESCE: Duration = Duration::from_millis(5);
/// Maximum number of waiting signals with arguments. Further ones lose their arguments, so that they are identical.
const CAPACITY: usize = 128;
/// How long other nodes are assumed to watch commits after one of them has said so.
const WATCH_TTL: Duration = Duration::from_secs(15);

/// The signals of this node that wait to be sent.
#[derive(Debug)]
pub(super) struct Outbox {
    /// `false` if no other node can exist, so that nothing is collected.
    is_shared: bool,
    pending: Mutex<HashSet<Signal>>,
    /// Whether a signal of a commit waits.
    has_commits: AtomicBool,
    /// Whether commits were not reported, because no other node was known to watch them.
    has_unreported: AtomicBool,
    /// Until when commits are reported, in milliseconds after `start`.
    watched_until: AtomicU64,
    start: Instant,
    /// When the next signals may be sent.
    next_at: Mutex<Instant>,
    wake: Notify,
}

impl Outbox {
    pub fn new(is_shared: bool) -> Self {
        Self {
            is_shared,
            pending: Mutex::default(),
            has_commits: AtomicBool::new(false),
            has_unreported: AtomicBool::new(false),
            watched_until: AtomicU64::new(0),
            start: Instant::now(),
            next_at: Mutex::new(Instant::now()),
            wake: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, HashSet<Signal>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a signal. Never waits.
    pub fn push(&self, signal: Signal) {
        if !self.is_shared {
            return;
        }
        let mut pending = self.pending();
        let signal = if pending.len() < CAPACITY { signal } else { signal.without_arguments() };
        pending.insert(signal);
        drop(pending);
        self.wake.notify_one();
    }

    /// Adds the signal of a commit if another node watches commits. Does not lock.
    pub fn push_commits(&self) {
        if !self.are_commits_watched() {
            self.has_unreported.store(true, Ordering::Release);
        } else if !self.has_commits.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    fn are_commits_watched(&self) -> bool {
        let until = self.watched_until.load(Ordering::Relaxed);
        until > 0 && self.now_ms() < until
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records that another node watches commits, or may watch them because this one may have missed its signal. Commits
    /// that were not reported are reported once.
    pub fn commits_may_be_watched(&self) {
        if !self.is_shared {
            return;
        }
        let ttl = u64::try_from(WATCH_TTL.as_millis()).unwrap_or(u64::MAX);
        self.watched_until.fetch_max(self.now_ms().saturating_add(ttl), Ordering::Relaxed);
        if self.has_unreported.swap(false, Ordering::AcqRel) {
            self.push_commits();
        }
    }

    fn next_at(&self) -> MutexGuard<'_, Instant> {
        self.next_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for signals, and collects further ones if the last were taken a moment ago. Returns each of them once.
    ///
    /// # Cancel safety
    /// Cancel-safe: no signal is lost.
    pub async fn take(&self) -> Vec<Signal> {
        while self.is_empty() {
            self.wake.notified().await;
        }
        let next_at = *self.next_at();
        tokio::time::sleep_until(next_at).await;
        *self.next_at() = Instant::now() + COALESCE;
        self.take_now()
    }

    /// Returns the waiting signals.
    pub fn take_now(&self) -> Vec<Signal> {
        let mut signals: Vec<Signal> = self.pending().drain().collect();
        if self.has_commits.swap(false, Ordering::AcqRel) {
            signals.push(Signal::Commits);
        }
        signals
    }

    fn is_empty(&self) -> bool {
        !self.has_commits.load(Ordering::Acquire) && self.pending().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn inbox(call: u128) -> Signal {
        Signal::Inbox { call: Some(Uuid::from_u128(call)) }
    }

    #[tokio::test(start_paused = true)]
    async fn identical_signals_within_five_milliseconds_are_sent_once() {
        let outbox = Outbox::new(true);
        let start = Instant::now();
        outbox.push(Signal::Tools);
        assert_eq!((outbox.take().await, start.elapsed()), (vec![Signal::Tools], Duration::ZERO), "at once");
        let (batch, ()) = tokio::join!(outbox.take(), async {
            outbox.push(Signal::Tools);
            tokio::time::sleep(Duration::from_millis(4)).await;
            outbox.push(Signal::Tools);
        });
        assert_eq!((batch, start.elapsed()), (vec![Signal::Tools], COALESCE));
        assert!(outbox.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn thousand_commits_a_second_are_at_most_200_signals() {
        let outbox = Outbox::new(true);
        outbox.commits_may_be_watched();
        let until = Instant::now() + Duration::from_secs(1);
        let commits = async {
            while Instant::now() < until {
                outbox.push_commits();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let batches = async {
            let mut count = 0;
            while tokio::time::timeout_at(until, outbox.take()).await.is_ok() {
                count += 1;
            }
            count
        };
        let ((), count) = tokio::join!(commits, batches);
        assert!((100..=201).contains(&count), "{count}");
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_waiting_signals_is_bounded() {
        let outbox = Outbox::new(true);
        (0..2 * CAPACITY as u128).for_each(|call| outbox.push(inbox(call)));
        outbox.push(Signal::Tools);
        let batch = outbox.take().await;
        assert_eq!(batch.len(), CAPACITY + 2);
        assert!(batch.contains(&Signal::Inbox { call: None }) && batch.contains(&Signal::Tools));
    }

    #[tokio::test(start_paused = true)]
    async fn commits_are_reported_only_while_another_node_may_watch() {
        let outbox = Outbox::new(true);
        outbox.commits_may_be_watched();
        assert!(outbox.is_empty(), "there was no commit");
        outbox.push_commits();
        assert_eq!(outbox.take().await, [Signal::Commits]);
        outbox.commits_may_be_watched();
        assert!(outbox.is_empty());
        tokio::time::advance(WATCH_TTL).await;
        outbox.push_commits();
        assert!(outbox.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn commits_before_another_node_may_watch_are_reported_once() {
        let outbox = Outbox::new(true);
        outbox.push_commits();
        outbox.push_commits();
        assert!(outbox.is_empty());
        outbox.commits_may_be_watched();
        assert_eq!(outbox.take().await, [Signal::Commits]);
        outbox.commits_may_be_watched();
        assert!(outbox.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_loses_no_signal() {
        let outbox = Outbox::new(true);
        outbox.push(Signal::Keys);
        assert_eq!(outbox.take().await, [Signal::Keys]);
        outbox.push(Signal::Keys);
        assert!(tokio::time::timeout(Duration::from_millis(2), outbox.take()).await.is_err());
        assert_eq!(outbox.take().await, [Signal::Keys]);
    }

    #[tokio::test]
    async fn single_node_collects_no_signals() {
        let outbox = Outbox::new(false);
        outbox.push(Signal::Tools);
        outbox.push_commits();
        outbox.commits_may_be_watched();
        assert!(outbox.is_empty());
    }
}
