//! The one task that writes: takes what has gathered, commits it, then tells.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Postgres};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::batch::Batch;
use super::commit::{CommitError, CommitResult, PATIENCE};
use super::{Change, Committed, Entry, JournalError, Sink, WriteUnit, postgres, sqlite};
use crate::domain::{Clock, IdGenerator, KeyClaim, Tenant, Time};
use crate::formats::native::ToolCall;
use crate::store::Db;
use crate::store::calls::StoredVersion;

/// Most changes that share one commit.
const GROUP: usize = 512;
/// Bytes of records, arguments and reports from which on a commit takes no more changes: while it is made, a database has
/// several copies of each.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Turns of the scheduler that a commit waits for as many changes as the one before it had.
const TURNS: usize = 32;
/// Most bytes of a record, and of arguments, whose call is written ahead.
const QUICKLY_WRITTEN: usize = 4 * 1024;
/// Waits between tries while the database is away, doubling from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(25);
const LAST_WAIT: Duration = Duration::from_secs(1);

type Done = oneshot::Sender<Result<(), JournalError>>;

pub(super) struct Writer {
    pub db: Db,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub sink: Sink,
    pub healthy: Arc<AtomicBool>,
    /// The last position that its own commits are known to have reached: one whose end is unknown lies behind it.
    pub last_known_pos: i64,
    /// The connection to a server, kept from one commit to the next: taking it out of the pool and giving it back costs
    /// a task each time.
    pub connection: Option<PoolConnection<Postgres>>,
    /// The commit before, until watchers know of it.
    pub unpublished: Option<Unpublished>,
}

/// A commit that its callers know of, and watchers do not yet. They are told while the next one is on its way, which is
/// when there is nothing else to do, or once nobody comes.
pub(super) struct Unpublished {
    committed: Committed,
    /// Freed with it, as that takes a while, too.
    _units: Vec<WriteUnit>,
}

impl Writer {
    pub async fn run(mut self, mut entries: mpsc::Receiver<Entry>, closing: CancellationToken) {
        let mut group = Vec::with_capacity(GROUP);
        let mut usual = 0;
        loop {
            // Some may be left from before, for which there was no room.
            let taken = tokio::select! {
                biased;
                () = std::future::ready(()), if !group.is_empty() => group.len(),
                taken = entries.recv_many(&mut group, GROUP) => taken,
                // Whoever was answered goes on first, and whoever asks by then.
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
            fill_group(&mut group, &mut entries, usual).await;
            // New calls come first: then positions follow one another among them, and among the others. What happens to
            // one call keeps its order.
            group.sort_by_key(|entry| !entry.unit.changes().iter().any(Change::brings_acceptance));
            let later = group.split_off(fitting(&group));
            let taken = group.len();
            let (mut units, mut done, mut going) = (Vec::with_capacity(taken), Vec::with_capacity(taken), 0);
            for entry in group.drain(..) {
                going += entry.unit.changes().iter().filter(|change| change.opens_call()).count();
                units.push(entry.unit);
                done.push(entry.done);
            }
            group.extend(later);
            self.write(units, done).await;
            // Calls that may run now come again sooner than callers do: if most are such, they go first, together. Otherwise
            // those who were answered come again, and these have come meanwhile.
            usual = if going * 2 >= taken { going } else { taken + entries.len() };
        }
    }

    /// Writes the changes, all together if that is possible, and tells each one's sender.
    async fn write(&mut self, units: Vec<WriteUnit>, done: Vec<Done>) {
        let batch = Batch::of(self.ids.next(), self.clock.now(), &units);
        let began = Instant::now();
        let (sink, untold) = (self.sink.clone(), self.unpublished.take());
        let outcome = {
            let commit = pin!(self.commit_until_certain(&batch));
            // In this order: the database has its work before this goes on with its own.
            let meanwhile = async {
                // A database on the same processor begins, and while it waits for its disk this goes on. Elsewhere it costs
                // next to nothing.
                std::thread::yield_now();
                publish(&sink, untold);
                write_answers(&units);
            };
            join(commit, meanwhile).await.0
        };
        match outcome {
            Ok(base) => {
                for (index, done) in done.into_iter().enumerate() {
                    let end = match index {
                        index if batch.fenced.contains(&index) => Err(JournalError::Fenced),
                        index if batch.claimed.contains(&index) => Err(JournalError::Claimed),
                        _ => Ok(()),
                    };
                    // Whoever waited may have gone.
                    let _ = done.send(end);
                }
                let committed = batch.committed(base, began.elapsed());
                self.unpublished = Some(Unpublished { committed, _units: units });
            }
            Err(CommitError::NotAllWritten) => {
                let at = batch.at;
                Box::pin(self.retry_without_refused(units, done, at)).await;
            }
            Err(error) => Box::pin(self.bisect(units, done, &error)).await,
        }
    }

    /// Some calls have ended already, or some keys are taken: their units are refused, the rest is written.
    async fn retry_without_refused(&mut self, units: Vec<WriteUnit>, done: Vec<Done>, at: Time) {
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

    /// The database refuses something in these units: halves are tried until the culprit stands alone.
    async fn bisect(&mut self, mut units: Vec<WriteUnit>, mut done: Vec<Done>, error: &CommitError) {
        if units.len() == 1 {
            let id = units.iter().flat_map(WriteUnit::changes).next().map(|change| change.call.id);
            tracing::error!(?id, %error, "the database refuses the record of a call");
            for done in done {
                let _ = done.send(Err(JournalError::Refused));
            }
            return;
        }
        let (later, later_done) = (units.split_off(units.len() / 2), done.split_off(done.len() / 2));
        self.write(units, done).await;
        self.write(later, later_done).await;
    }

    /// Tries until the commit is made or refused; while the database is away, that is for ever.
    async fn commit_until_certain(&mut self, batch: &Batch<'_>) -> CommitResult {
        let mut wait = FIRST_WAIT;
        let mut unknown = false;
        loop {
            match self.commit_once(batch, unknown).await {
                Ok(base) => {
                    self.note_answer();
                    self.last_known_pos = base + batch.positions();
                    return Ok(base);
                }
                Err(error) if !is_transient(&error) => match self.was_committed(batch, unknown).await {
                    Ok(found) => {
                        self.note_answer();
                        return found.ok_or(error);
                    }
                    // Asked again by the next try.
                    Err(_) => tokio::time::sleep(wait).await,
                },
                Err(error) => {
                    if self.healthy.swap(false, Ordering::Relaxed) {
                        tracing::warn!(%error, "the database is away; calls wait");
                    }
                    unknown = true;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LAST_WAIT);
                }
            }
        }
    }

    /// The database has said yes or no, so it is there.
    fn note_answer(&self) {
        if !self.healthy.swap(true, Ordering::Relaxed) {
            tracing::info!("the database is back");
        }
    }

    /// Whether a refused commit was made by an earlier try, which the server went on with while this one waited behind
    /// it: then its own rows are what refused it.
    async fn was_committed(&mut self, batch: &Batch<'_>, unknown: bool) -> Result<Option<i64>, sqlx::Error> {
        if !unknown {
            return Ok(None);
        }
        let known = self.last_known_pos;
        match &self.db {
            Db::Sqlite(pools) => sqlite::find(&mut pools.writer.pool().acquire().await?, known, batch.id).await,
            Db::Postgres(pools) => {
                let mut connection = match self.connection.take() {
                    Some(connection) => connection,
                    None => pools.writer.pool().acquire().await?,
                };
                let looked = tokio::time::timeout(PATIENCE, postgres::find(&mut connection, known, batch.id)).await;
                let found = looked.unwrap_or(Err(sqlx::Error::PoolTimedOut));
                if found.is_err() {
                    drop(connection.detach());
                } else {
                    self.connection = Some(connection);
                }
                found
            }
        }
    }

    /// One try. If an earlier one's end is unknown, that is found out first.
    async fn commit_once(&mut self, batch: &Batch<'_>, unknown: bool) -> CommitResult {
        let known = self.last_known_pos;
        match &self.db {
            Db::Sqlite(pools) => {
                let mut connection = pools.writer.pool().acquire().await?;
                if unknown && let Some(base) = sqlite::find(&mut connection, known, batch.id).await? {
                    return Ok(base);
                }
                sqlite::commit(&mut connection, batch).await
            }
            Db::Postgres(pools) => {
                let mut connection = match self.connection.take() {
                    Some(connection) => connection,
                    None => pools.writer.pool().acquire().await?,
                };
                let attempt = async {
                    if unknown && let Some(base) = postgres::find(&mut connection, known, batch.id).await? {
                        return Ok(base);
                    }
                    postgres::commit(&mut connection, batch).await
                };
                let outcome = tokio::time::timeout(PATIENCE, attempt).await.unwrap_or(Err(CommitError::TimedOut));
                if outcome.as_ref().is_err_and(is_transient) {
                    // Its state is unknown, so it is not used again; the next try has a new one.
                    drop(connection.detach());
                } else {
                    if batch.is_large() {
                        connection.shrink_buffers();
                    }
                    self.connection = Some(connection);
                }
                outcome
            }
        }
    }

    /// Which of these keys others had taken at the time of the commit. A database that is away is waited for.
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
                        tokio::time::sleep(LAST_WAIT).await;
                    }
                }
            }
        }
        taken
    }

    /// How far these calls have come on disk. A database that is away is waited for.
    async fn reached(&self, ids: &[Uuid]) -> HashMap<Uuid, StoredVersion> {
        loop {
            match crate::store::calls::reached(&self.db, ids).await {
                Ok(reached) => return reached.into_iter().map(|reached| (reached.id, reached)).collect(),
                Err(error) => {
                    tracing::warn!(%error, "cannot look up ended calls");
                    tokio::time::sleep(LAST_WAIT).await;
                }
            }
        }
    }
}

fn publish(sink: &Sink, untold: Option<Unpublished>) {
    if let Some(Unpublished { committed, .. }) = &untold {
        sink(committed);
    }
}

/// Writes the JSON of calls for which somebody waits. They are told once the commit is made, and then everybody is busy.
fn write_answers(units: &[WriteUnit]) {
    for Change { call, live_image: told, record, is_awaited, .. } in units.iter().flat_map(WriteUnit::changes) {
        let is_quick = record.len() <= QUICKLY_WRITTEN && call.arguments_text.get().len() <= QUICKLY_WRITTEN;
        // The record says nothing of how much is told, if that is not what is stored.
        if *is_awaited && is_quick && told.is_none() {
            ToolCall::prerender(call);
        }
    }
}

/// How many of these share a commit.
fn fitting(group: &[Entry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        let before = bytes;
        bytes += entry.unit.changes().iter().map(Change::size).sum::<usize>();
        before < GROUP_BYTES
    };
    group.iter().take_while(fits).count()
}

/// Lets others add their changes while fewer than the usual number are here. Callers that were just answered are about to
/// come again: a single change that was left over from before would otherwise be committed alone, they would gather
/// behind it, and so on for ever, with twice the commits. The wait is a few turns of the scheduler, and nobody's
/// clock: where nobody else comes, it ends at once.
async fn fill_group(group: &mut Vec<Entry>, entries: &mut mpsc::Receiver<Entry>, usual: usize) {
    for _ in 0..TURNS {
        if group.len() >= usual.min(GROUP) {
            return;
        }
        tokio::task::yield_now().await;
        while group.len() < GROUP
            && let Ok(entry) = entries.try_recv()
        {
            group.push(entry);
        }
    }
}

/// Whether the same commit may succeed later, unchanged.
fn is_transient(error: &CommitError) -> bool {
    let CommitError::Database(error) = error else { return matches!(error, CommitError::TimedOut) };
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            // Data, constraint, syntax or access, a limit, and whatever a trigger of the operator's raises.
            Some(code) if code.len() == 5 => !matches!(&code[..2], "22" | "23" | "42" | "54" | "P0"),
            // SQLite's constraint, too big, mismatch, misuse and range; the low byte is the kind.
            Some(code) => code.parse::<u32>().is_ok_and(|code| !matches!(code & 0xff, 18..=21 | 25)),
            None => true,
        },
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}
