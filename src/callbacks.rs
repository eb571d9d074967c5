//! Tells the ends of calls to the URLs that their callers gave: signed (Standard Webhooks), at least once, with the same
//! event id on every try, until the end is taken or [`schedule::TRIES`] are used up.
//!
//! What is due stands in the database alone, so a crash loses nothing and any node goes on with it. A try holds a lease
//! that outlasts it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::domain::Clock;
use crate::executor::HttpClient;
pub use crate::executor::http::check_url;
use crate::executor::signing_key::SigningKey;
use crate::store::Stores;

mod attempt;
mod counts;
pub mod schedule;
mod slots;
mod worker;

pub use counts::Counts;

use worker::Worker;

/// How often due callbacks are looked for without a kick: retries, and what a crash or another node left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sends callbacks. One per node.
#[derive(Debug)]
pub struct Callbacks {
    store: Stores,
    client: HttpClient,
    key: SigningKey,
    clock: Clock,
    counts: Arc<Counts>,
}

impl Callbacks {
    /// A sender that is ready.
    #[must_use]
    pub fn new(store: Stores, client: HttpClient, key: SigningKey, clock: Clock) -> Self {
        Self { store, client, key, clock, counts: Arc::default() }
    }

    /// What becomes of tries.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Sends what is due until `stop`; then tries under way have a moment to end, and others take over what is left.
    /// `kick` says that a call with a callback has ended.
    pub async fn run(self, kick: Arc<Notify>, stop: CancellationToken) {
        let mut desk = Worker::new(self);
        let mut timer = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut wanted, mut rested) = (false, Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = desk.one_ended() => wanted = true,
                () = kick.notified(), if !wanted => wanted = true,
                _ = timer.tick() => wanted = true,
                // A look is followed by a rest as long as itself: it never takes more than half of a connection.
                () = tokio::time::sleep_until(rested), if wanted => {
                    let began = Instant::now();
                    wanted = false;
                    desk.poll().await;
                    rested = Instant::now() + began.elapsed();
                }
            }
        }
        desk.close().await;
    }
}
