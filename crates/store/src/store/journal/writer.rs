//! The writer task: collects waiting changes, commits them, notifies the senders and publishes the events.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use sqlx::{Connection, Postgres};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::batch::Batch;
use super::commit::{COMMIT_TIMEOUT, CommitError, CommitResult, is_transient};
use super::flush::FlushGate;
use super::group::{MAX_GROUP, fill_group, gather, split_off_later};
use super::pace::CommitPace;
use super::{Change, CommittedEvents, Entry, JournalError, Sink, WriteUnit, postgres, sqlite};
use crate::store::calls::StoredVersion;
use crate::store::db::Pools;
use crate::store::server::confirm::wait_for_standbys;
use crate::store::timeout::PinnedConnection;
use crate::store::{Db, partitions, shards};
use toolpost_core::domain::{Clock, IdGenerator, KeyClaim, Shard, Tenant, Time};
use toolpost_core::formats;

/// Maximum bytes of a record, and of arguments, up to which the JSON of a call is rendered ahead.
const MAX_PRERENDER_BYTES: usize = 4 * 1024;
/// Delays between retries while the database is unavailable; they double from the first to the last.
const FIRST_DELAY: Duration = Duration::from_millis(25);
const MAX_DELAY: Duration = Duration::from_secs(1);

type DoneSender = oneshot::Sender<Result<(), JournalError>>;

/// The parts of a writer that all writers of a node share.
#[derive(Clone)]
pub(super) struct WriterParts {
    pub db: Db,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub sink: Sink,
    pub healthy: Arc<AtomicBool>,
    pub closing: CancellationToken,
    pub flush_gate: Arc<FlushGate>,
}

pub(super) struct Writer {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    sink: Sink,
    healthy: Arc<AtomicBool>,
    closing: CancellationToken,
    flush_gate: Arc<FlushGate>,
    shard: Shard,
    /// Whether the shard belongs to this node. Only then the connection is kept.
    is_own: Arc<AtomicBool>,
    /// Whether the rows of the shard certainly exist.
    is_open: bool,
    pace: Arc<CommitPace>,
    /// The last position known to be reached by a commit of this writer. A commit with an unknown result lies behind
    /// it.
    last_known_pos: i64,
    /// The Postgres connection, kept across commits: each acquire and release of a pooled connection costs a task.
    connection: Option<PinnedConnection<Postgres>>,
    /// The previous commit, until it is published.
    unpublished: Option<UnpublishedCommit>,
}

/// A commit that was acknowledged to its callers but not yet published to subscribers. It is published while the
/// database executes the next commit, or when the queue is empty.
pub(super) struct UnpublishedCommit {
    committed: CommittedEvents,
    /// Freed together with the commit, because freeing takes time as well.
    _units: Vec<WriteUnit>,
}

impl Writer {
    pub fn new(parts: WriterParts, shard: Shard, is_own: Arc<AtomicBool>, pace: Arc<CommitPace>) -> Self {
        let WriterParts { db, clock, ids, sink, healthy, closing, flush_gate } = parts;
        let (last_known_pos, connection, unpublished) = (shard.start(), None, None);
        Self {
            db,
            clock,
            ids,
            sink,
            healthy,
            closing,
            flush_gate,
            shard,
            is_open: is_own.load(Ordering::Relaxed),
            is_own,
            pace,
            last_known_pos,
            connection,
            unpublished,
        }
    }

    pub async fn run(mut self, mut entries: mpsc::Receiver<Entry>) {
        let closing = self.closing.clone();
        let mut group = Vec::with_capacity(MAX_GROUP);
        let mut expected = 0;
        loop {
            // Entries may be left over that did not fit into the previous commit.
            let taken = tokio::select! {
                biased;
                () = std::future::ready(()), if !group.is_empty() => group.len(),
                taken = entries.recv_many(&mut group, MAX_GROUP) => taken,
                // Callers that were just notified run first, and may queue further changes.
                () = tokio::task::yield_now(), if self.unpublished.is_some() => {
                    publish(&self.sink, self.unpublished.take());
                    continue;
                }
                () = closing.cancelled(), if !entries.is_closed() => {
                    entries.close();
                    continue;
                }
            };
            if taken == 0 {
                return publish(&self.sink, self.unpublished.take());
            }
            let starts_flush =
                self.pace.is_slow() && self.is_own.load(Ordering::Relaxed) && self.flush_gate.try_pass(Instant::now());
            if !starts_flush {
                self.collect(&mut group, &mut entries, expected).await;
            }
            let later = split_off_later(&mut group);
            let taken = group.len();
            let (mut units, mut done, mut opened) = (Vec::with_capacity(taken), Vec::with_capacity(taken), 0);
            for entry in group.drain(..) {
                opened += entry.unit.changes().iter().filter(|change| change.opens_call()).count();
                units.push(entry.unit);
                done.push(entry.done);
            }
            group.extend(later);
            self.write(units, done).await;
            // Calls that may run now send their next change sooner than callers send new calls. If they are the
            // majority, the next commit waits only for them. Otherwise it waits for the notified callers and for
            // changes queued since. A commit that did not wait tells nothing about the next one.
            if !starts_flush {
                expected = if opened * 2 >= taken { opened } else { taken + entries.len() };
            }
        }
    }

    /// Waits for the changes that are about to be queued: a few turns, or longer if commits are slow.
    async fn collect(&mut self, group: &mut Vec<Entry>, entries: &mut mpsc::Receiver<Entry>, expected: usize) {
        fill_group(group, entries, expected).await;
        if let Some(wait) = self.pace.gathering()
            && group.len() < expected
        {
            publish(&self.sink, self.unpublished.take());
            gather(group, entries, expected, wait).await;
        }
    }

    /// Writes the units, in one commit if possible, and notifies each sender.
    async fn write(&mut self, units: Vec<WriteUnit>, done: Vec<DoneSender>) {
        let batch = Batch::of(self.ids.next(), self.clock.now(), &units);
        let began = Instant::now();
        self.pace.begin();
        let (sink, unpublished) = (self.sink.clone(), self.unpublished.take());
        let outcome = {
            let commit = pin!(self.commit_until_certain(&batch));
            // The commit is polled first, so the database works while this task publishes and renders.
            let meanwhile = async {
                // Lets a database on the same processor start. This task continues while the database waits for its
                // disk. The cost is negligible otherwise.
                std::thread::yield_now();
                publish(&sink, unpublished);
                prerender_awaited(&units);
            };
            join(commit, meanwhile).await.0
        };
        self.pace.end(began.elapsed(), units.len());
        self.flush_gate.end(began);
        match outcome {
            Ok(base) => {
                for (index, done) in done.into_iter().enumerate() {
                    let end = match index {
                        index if batch.fenced.contains(&index) => Err(JournalError::Fenced),
                        index if batch.claimed.contains(&index) => Err(JournalError::Claimed),
                        _ => Ok(()),
                    };
                    // The receiver may be dropped.
                    let _ = done.send(end);
                }
                let committed = batch.committed(base, began.elapsed());
                self.unpublished = Some(UnpublishedCommit { committed, _units: units });
            }
            Err(CommitError::NotAllWritten) => {
                let at = batch.at;
                Box::pin(self.retry_without_refused(units, done, at)).await;
            }
            Err(error) => Box::pin(self.bisect(units, done, &error)).await,
        }
    }

    /// Rejects units with ended calls or claimed keys, and writes the other units.
    async fn retry_without_refused(&mut self, units: Vec<WriteUnit>, done: Vec<DoneSender>, at: Time) {
        let changes = || units.iter().flat_map(WriteUnit::changes);
        let ids: Vec<Uuid> = changes().map(|change| change.call.id).collect();
        let claims: Vec<(&Tenant, &KeyClaim)> = changes().flat_map(Change::claims).collect();
        let (reached, taken) = (self.reached(&ids).await, self.taken(&claims, at).await);
        let refusal = |unit: &WriteUnit| {
            let mut changes = unit.changes().iter();
            let is_taken = |change: &Change| {
                change.claims().any(|(tenant, claim)| taken.contains(&(tenant.clone(), claim.once.key)))
            };
            let is_fenced =
                |change: &Change| reached.get(&change.call.id).is_some_and(|reached| reached.fences(&change.call));
            if unit.changes().iter().any(is_taken) {
                return Some(JournalError::Claimed);
            }
            changes.any(is_fenced).then_some(JournalError::Fenced)
        };
        let refusals: Vec<Option<JournalError>> = units.iter().map(refusal).collect();
        if refusals.iter().all(Option::is_none) {
            let error = CommitError::NotAllWritten;
            return self.bisect(units, done, &error).await;
        }
        let mut rest = (Vec::new(), Vec::new());
        for ((unit, done), refusal) in units.into_iter().zip(done).zip(refusals) {
            match refusal {
                Some(refusal) => drop(done.send(Err(refusal))),
                None => {
                    rest.0.push(unit);
                    rest.1.push(done);
                }
            }
        }
        if !rest.0.is_empty() {
            self.write(rest.0, rest.1).await;
        }
    }

    /// Splits units that the database rejects into halves until the offending unit is isolated and rejected.
    async fn bisect(&mut self, mut units: Vec<WriteUnit>, mut done: Vec<DoneSender>, error: &CommitError) {
        if units.len() == 1 {
            let id = units.iter().flat_map(WriteUnit::changes).next().map(|change| change.call.id);
            tracing::error!(?id, %error, "the database rejected the record of a call");
            for done in done {
                let _ = done.send(Err(JournalError::Refused));
            }
            return;
        }
        let (later, later_done) = (units.split_off(units.len() / 2), done.split_off(done.len() / 2));
        self.write(units, done).await;
        self.write(later, later_done).await;
    }

    /// Retries until the commit succeeds or is rejected; indefinitely while the database is unavailable.
    async fn commit_until_certain(&mut self, batch: &Batch<'_>) -> CommitResult {
        let mut wait = FIRST_DELAY;
        let mut unknown = false;
        loop {
            match self.commit_once(batch, unknown).await {
                Ok(base) => {
                    self.mark_healthy();
                    self.last_known_pos = base + batch.positions();
                    return Ok(base);
                }
                Err(error) if !is_transient(&error) => match self.was_committed(batch, unknown).await {
                    Ok(found) => {
                        self.mark_healthy();
                        return found.ok_or(error);
                    }
                    // The next attempt looks it up again.
                    Err(_) => tokio::time::sleep(wait).await,
                },
                Err(error) => {
                    if self.healthy.swap(false, Ordering::Relaxed) {
                        tracing::warn!(%error, "the database is unavailable; retrying the commit");
                    }
                    unknown = true;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_DELAY);
                }
            }
        }
    }

    /// Records that the database answered, with success or rejection.
    fn mark_healthy(&self) {
        if !self.healthy.swap(true, Ordering::Relaxed) {
            tracing::info!("the database is available again");
        }
    }

    /// Checks whether an earlier attempt with an unknown result succeeded, also after a later attempt was rejected. The
    /// server may finish the earlier attempt while the later one waits behind it; then the rows of the earlier attempt
    /// caused the rejection.
    async fn was_committed(&mut self, batch: &Batch<'_>, unknown: bool) -> Result<Option<i64>, CommitError> {
        if !unknown {
            return Ok(None);
        }
        let known = self.last_known_pos;
        match &self.db {
            Db::Sqlite(pools) => sqlite::find(pools, known, batch.id).await,
            Db::Postgres(pools) => {
                let mut connection = acquire(self.connection.take(), pools).await?;
                let look = connection.run(async |connection| {
                    let found = postgres::find(connection, known, batch.id).await?;
                    if found.is_some() {
                        wait_for_standbys(connection).await?;
                    }
                    Ok(found)
                });
                let looked = tokio::time::timeout(COMMIT_TIMEOUT, look).await.ok().flatten();
                let found = looked.unwrap_or(Err(CommitError::TimedOut));
                if found.is_err() {
                    connection.discard();
                } else {
                    self.connection = self.is_own.load(Ordering::Relaxed).then_some(connection);
                }
                found
            }
        }
    }

    /// Makes one attempt. If the result of an earlier attempt is unknown, looks it up first.
    async fn commit_once(&mut self, batch: &Batch<'_>, unknown: bool) -> CommitResult {
        if let Some(base) = self.was_committed(batch, unknown).await? {
            return Ok(base);
        }
        let outcome = self.attempt(batch).await;
        if !matches!(outcome, Err(CommitError::NoPartition)) {
            return outcome;
        }
        if let Err(error) = partitions::cover(&self.db, batch.ids()).await {
            // A call is not lost because of this, whatever the reason is.
            tracing::warn!(%error, "cannot create a partition; retrying the commit");
            return outcome;
        }
        self.attempt(batch).await
    }

    async fn attempt(&mut self, batch: &Batch<'_>) -> CommitResult {
        let pools = match &self.db {
            Db::Sqlite(pools) => return sqlite::commit(pools, batch).await,
            Db::Postgres(pools) => pools,
        };
        if !self.is_open {
            shards::open(&self.db, self.shard).await?;
            self.is_open = true;
        }
        let mut connection = acquire(self.connection.take(), pools).await?;
        let shard = self.shard;
        let attempt = connection.run(async |connection| {
            let outcome = postgres::commit(connection, shard, batch).await;
            if outcome.is_ok() && batch.is_large() {
                connection.shrink_buffers();
            }
            outcome
        });
        let outcome = tokio::time::timeout(COMMIT_TIMEOUT, attempt).await.ok().flatten();
        let outcome = outcome.unwrap_or(Err(CommitError::TimedOut));
        if outcome.as_ref().is_err_and(is_transient) {
            // The state of the connection is unknown, so the next attempt uses a new one.
            connection.discard();
        } else {
            self.connection = self.is_own.load(Ordering::Relaxed).then_some(connection);
        }
        outcome
    }

    /// Returns the keys that other calls had claimed at the time of the commit. Waits while the database is
    /// unavailable.
    async fn taken(&self, claims: &[(&Tenant, &KeyClaim)], at: Time) -> HashSet<(Tenant, [u8; 32])> {
        let mut taken = HashSet::new();
        for (tenant, claim) in claims {
            loop {
                match crate::store::idempotency::stored(&self.db, tenant, &claim.once.key, at).await {
                    Ok(stored) => {
                        let is_other = stored.is_some_and(|stored| stored.calls != claim.calls);
                        taken.extend(is_other.then(|| ((*tenant).clone(), claim.once.key)));
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot look up an idempotency key");
                        tokio::time::sleep(MAX_DELAY).await;
                    }
                }
            }
        }
        taken
    }

    /// Returns the stored version of each call. Waits while the database is unavailable.
    async fn reached(&self, ids: &[Uuid]) -> HashMap<Uuid, StoredVersion> {
        loop {
            match crate::store::calls::reached(&self.db, ids).await {
                Ok(reached) => return reached.into_iter().map(|reached| (reached.id, reached)).collect(),
                Err(error) => {
                    tracing::warn!(%error, "cannot look up ended calls");
                    tokio::time::sleep(MAX_DELAY).await;
                }
            }
        }
    }
}

/// Returns the connection that was kept, or a new one if another server took over.
async fn acquire(
    kept: Option<PinnedConnection<Postgres>>,
    pools: &Pools<Postgres>,
) -> Result<PinnedConnection<Postgres>, sqlx::Error> {
    match kept {
        Some(connection) if !connection.is_replaced() => Ok(connection),
        _ => pools.writer.pin().await,
    }
}

fn publish(sink: &Sink, unpublished: Option<UnpublishedCommit>) {
    if let Some(UnpublishedCommit { committed, .. }) = &unpublished {
        sink(committed);
    }
}

/// Renders the JSON of awaited calls ahead: all tasks are busy right after the commit.
fn prerender_awaited(units: &[WriteUnit]) {
    for Change { call, live_image, record, is_awaited, .. } in units.iter().flat_map(WriteUnit::changes) {
        let is_small = record.len() <= MAX_PRERENDER_BYTES && call.arguments_text.get().len() <= MAX_PRERENDER_BYTES;
        // The size of the record says nothing about a published call that differs from the stored one.
        if *is_awaited && is_small && live_image.is_none() {
            formats::prerender(call);
        }
    }
}
