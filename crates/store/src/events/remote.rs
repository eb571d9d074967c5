//! Publishes the commits of other nodes on the bus of this node, while somebody watches.
//!
//! A signal of another node wakes the reader, and a poll finds what no signal announced. Nothing is read while no
//! client of this node watches.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Bus;
use crate::store::events::Commit;
use crate::store::{Journal, StoreError, Stores};
use toolpost_core::domain::event::Event;
use toolpost_core::domain::{Cursor, Shard};

/// How long the reader waits after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long commits are still read after the last subscriber has left, because the next one often follows soon.
const LINGER: Duration = Duration::from_secs(5);
/// Minimum time between two readings. Under load, one reading then has the commits of several signals, which costs the
/// database and this node less than many small ones.
const REST: Duration = Duration::from_millis(20);
/// Maximum number of commits of a shard that are read at once.
const PAGE: u32 = 64;

/// Publishes the commits of other nodes until the task is dropped. After `poll` without a signal, it looks for commits that
/// no signal announced.
pub async fn run(stores: Stores, bus: Bus, journal: Journal, poll: Duration) {
    loop {
        bus.watched().await;
        // The journal logs an unavailable database. Subscribers read the store themselves until it answers.
        let mut commits = RemoteCommits { stores: &stores, bus: &bus, journal: &journal, newest: Cursor::default() };
        if commits.follow(poll).await.is_err() {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// The commits of other nodes, as far as this node has read them.
struct RemoteCommits<'a> {
    stores: &'a Stores,
    bus: &'a Bus,
    journal: &'a Journal,
    /// The newest events at the previous reading.
    newest: Cursor,
}

impl RemoteCommits<'_> {
    /// Publishes commits until no client of this node has watched for [`LINGER`].
    async fn follow(&mut self, poll: Duration) -> Result<(), StoreError> {
        let mut signals = self.stores.signals().commits();
        self.newest = self.stores.newest().await?;
        self.bus.skip_to(&self.newest);
        // Commits from before this reading were not published here.
        self.bus.resynchronize();
        let (mut watched_at, mut read_at) = (Instant::now(), Instant::now());
        while watched_at.elapsed() < LINGER {
            let is_signalled = timeout(poll.min(LINGER), signals.committed()).await.is_ok();
            if self.bus.is_watched() {
                watched_at = Instant::now();
            }
            if is_signalled || read_at.elapsed() >= poll {
                read_at = Instant::now();
                self.publish_new().await?;
                tokio::time::sleep_until(read_at + REST).await;
            }
        }
        Ok(())
    }

    /// Publishes all commits that are not published yet.
    async fn publish_new(&mut self) -> Result<(), StoreError> {
        let newest = self.stores.newest().await?;
        let published = self.bus.published();
        for pos in newest.positions() {
            let shard = Shard::of_position(*pos);
            // Commits of this node are published by its journal, shortly after they are stored. What is not published
            // until the next reading is of another node, which has adopted a call of this shard.
            let until = if self.journal.owns(shard) { self.newest.position_in(shard) } else { *pos };
            let mut after = published.position_in(shard);
            while after < until {
                after = self.publish_page(after, until).await?;
            }
        }
        self.newest = newest;
        Ok(())
    }

    /// Publishes some commits after a position, and returns the position of the last one.
    async fn publish_page(&self, after: i64, until: i64) -> Result<i64, StoreError> {
        let commits = self.stores.commits_after(after, PAGE).await?;
        let fitting = self.stores.fitting_calls(commits.iter().map(|commit| commit.calls.clone())).await?;
        let commits = &commits[..fitting];
        let mut ids: Vec<_> = commits.iter().flat_map(|commit| &commit.calls).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut events = self.stores.events_of_any_tenant(&ids).await?.into_iter().peekable();
        for commit in commits {
            let own = std::iter::from_fn(|| events.next_if(|event| event.pos <= commit.last_pos));
            let own: Vec<Event> = own.filter(|event| commit.contains(event.pos)).collect();
            self.bus.publish_events(commit.first_pos, commit.last_pos, || own);
        }
        // Commits without a row were deleted by the retention meanwhile.
        Ok(commits.last().map_or(until, |commit: &Commit| commit.last_pos))
    }
}
