//! Callbacks: signed deliveries (Standard Webhooks) of ended calls to the URLs that their callers gave. Delivery is at
//! least once, with the same event id in every attempt, until the receiver accepts it or [`schedule::TRIES`] are used
//! up.
//!
//! Due callbacks are stored only in the database, so that a crash loses none and any node can continue. An attempt
//! holds a lease that is longer than the attempt can take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use toolpost_core::domain::Clock;
use toolpost_store::store::Stores;
use toolpost_tool::executor::HttpClient;
pub use toolpost_tool::executor::http::check_url;
use toolpost_tool::executor::signing_key::SigningKey;

pub mod schedule;
mod slots;
mod worker;

use worker::Worker;

/// Interval of the search for due callbacks without a wakeup: retries, and callbacks of a crashed node.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Counts of attempts since the start of this node.
#[derive(Debug, Default)]
pub struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

impl Counts {
    /// Returns the numbers of accepted deliveries, of failed attempts that are retried, and of callbacks that were
    /// abandoned after their last attempt.
    #[must_use]
    pub fn by_outcome(&self) -> [(&'static str, u64); 3] {
        let counts = [("delivered", &self.delivered), ("failed", &self.failed), ("given_up", &self.given_up)];
        counts.map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)))
    }
}

/// The sender of callbacks, one per node.
#[derive(Debug)]
pub struct Callbacks {
    store: Stores,
    client: HttpClient,
    key: SigningKey,
    clock: Clock,
    counts: Arc<Counts>,
}

impl Callbacks {
    /// Creates a sender.
    #[must_use]
    pub fn new(store: Stores, client: HttpClient, key: SigningKey, clock: Clock) -> Self {
        Self { store, client, key, clock, counts: Arc::default() }
    }

    /// Returns the counts of attempts.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Sends due callbacks until `stop` fires. Attempts in flight then have a short grace period, and other nodes
    /// continue the rest. `wakeup` is notified when a call with a callback has ended.
    pub async fn run(self, wakeup: Arc<Notify>, stop: CancellationToken) {
        let mut worker = Worker::new(self);
        let mut timer = tokio::time::interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_due, mut rested) = (false, Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = worker.attempt_ended() => is_due = true,
                () = wakeup.notified(), if !is_due => is_due = true,
                _ = timer.tick() => is_due = true,
                // A poll is followed by a pause of the same length, so that polling uses at most half of a connection's
                // time.
                () = tokio::time::sleep_until(rested), if is_due => {
                    let began = Instant::now();
                    is_due = false;
                    worker.poll().await;
                    rested = Instant::now() + began.elapsed();
                }
            }
        }
        worker.close().await;
    }
}
