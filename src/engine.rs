//! The path of a call, in order: look up → parse → coerce and validate → record → run → convert → check the result →
//! settle. Every accepted call reaches exactly one end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::domain::limits::{LimitsSpec, ServerLimits};
use crate::domain::tool::RetryOverride;
use crate::domain::{Call, CallRequest, Clock, Ids};
use crate::registry::Registry;
use crate::store::Journal;

mod batch;
mod prepare;
mod recorder;
mod run;
mod work;

pub use batch::Mode;
pub use prepare::try_arguments;
pub use recorder::NotRecorded;
pub use work::Work;

/// Memory that a call is counted with beside its request, in KiB.
const KIB_PER_CALL: usize = 16;

/// What the engine is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node's name, in every call's record.
    pub node: Arc<str>,
    /// Bounds where nobody says otherwise.
    pub limits: ServerLimits,
    /// How long a caller waits for the database before it is told that it is away.
    pub store_patience: Duration,
    /// Memory that requests in flight may hold, in KiB; more are refused.
    pub room_kib: usize,
    /// Wakes the sender of callbacks, once the end of a call that has one is on disk.
    pub callbacks_kick: Arc<Notify>,
}

/// Runs calls. One per node.
#[derive(Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    journal: Journal,
    clock: Clock,
    ids: Ids,
    settings: Settings,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    draining: AtomicBool,
    stop: CancellationToken,
}

/// Calls that are asked for together.
#[derive(Debug, Default)]
pub struct Submission {
    /// The calls, in request order.
    pub calls: Vec<CallRequest>,
    /// Whether they came as a batch, however many.
    pub is_batch: bool,
    /// How a batch runs.
    pub mode: Mode,
    /// The conversation that they belong to.
    pub session: Option<Arc<str>>,
    /// Bounds for all of them; a call's own come first.
    pub limits: LimitsSpec,
    /// Retries for all of them; a call's own come first.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first; a call's own comes first.
    pub priority: i32,
    /// Where their ends are told to.
    pub callback_url: Option<Arc<str>>,
    /// The model's output was cut off: none of them runs.
    pub truncated: bool,
    /// W3C Trace Context of the request.
    pub traceparent: Option<Arc<str>>,
}

/// Calls on their way. Dropped, they go on by themselves.
#[derive(Debug)]
pub struct Submitted {
    /// The batch, if it is one.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub calls: Vec<Pending>,
    work: Work,
}

impl Submitted {
    /// All calls when they have ended and are on disk, in request order. They run here as long as this is awaited.
    ///
    /// # Errors
    /// If one could not be recorded in time; it may still be.
    pub async fn ended(self) -> Result<Vec<Arc<Call>>, NotRecorded> {
        let Self { calls, mut work, .. } = self;
        // The first that is not recorded in time ends the wait: what comes after it in a batch waits for the database.
        let mut ends = std::pin::pin!(async move {
            let mut calls = calls;
            match calls.pop() {
                Some(only) if calls.is_empty() => Ok(vec![only.end().await?]),
                last => try_join_all(calls.into_iter().chain(last).map(Pending::end)).await,
            }
        });
        tokio::select! {
            biased;
            () = &mut work => ends.await,
            ended = &mut ends => ended,
        }
    }

    /// Lets the calls run by themselves.
    #[must_use]
    pub fn detach(self) -> Vec<Pending> {
        self.calls
    }
}

/// One call on its way.
#[derive(Debug)]
pub struct Pending {
    /// Its id.
    pub id: Uuid,
    end: recorder::End,
}

impl Pending {
    /// The call when it has ended and is on disk.
    ///
    /// # Errors
    /// If it could not be recorded in time; it may still be.
    pub async fn end(self) -> Result<Arc<Call>, NotRecorded> {
        self.end.await.unwrap_or(Err(NotRecorded { accepted: false }))
    }
}

/// Why calls were not taken at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Too many are in flight.
    Overloaded,
    /// The service is stopping.
    ShuttingDown,
}

impl Engine {
    /// An engine that is ready.
    #[must_use]
    pub fn new(registry: Arc<Registry>, journal: Journal, clock: Clock, ids: Ids, settings: Settings) -> Self {
        let room = Arc::new(Semaphore::new(settings.room_kib));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Self { registry, journal, clock, ids, settings, room, tasks, draining: AtomicBool::new(false), stop }
    }

    /// Ids for as many calls, so that they can be watched before they are submitted.
    #[must_use]
    pub fn ids(&self, calls: usize) -> Vec<Uuid> {
        (0..calls).map(|_| self.ids.next()).collect()
    }

    /// An id for anything else that wants one, as a request.
    #[must_use]
    pub fn new_id(&self) -> Uuid {
        self.ids.next()
    }

    /// Takes calls: they run whether or not anybody waits for them. `ids` are from [`Engine::ids`], one a call; `bytes` is the
    /// size of the request.
    ///
    /// # Errors
    /// If there is no room, or the service is stopping. Then nothing was accepted.
    pub fn submit(
        self: &Arc<Self>,
        submission: Submission,
        ids: Vec<Uuid>,
        bytes: usize,
    ) -> Result<Submitted, Refusal> {
        let room = self.admit(submission.calls.len(), bytes)?;
        let batch_id = submission.is_batch.then(|| self.ids.next());
        let mode = submission.mode;
        let (jobs, calls) = self.prepare(submission, &ids, batch_id);
        let engine = self.clone();
        let work = async move {
            engine.run_all(jobs, mode).await;
            drop(room);
        };
        Ok(Submitted { batch_id, calls, work: Work::new(work, &self.tasks) })
    }

    fn admit(&self, calls: usize, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::ShuttingDown);
        }
        // A request that is larger than all the room takes all of it, and so runs alone.
        let wanted = (calls * KIB_PER_CALL + bytes * 4 / 1024).min(self.settings.room_kib);
        let permits = u32::try_from(wanted).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(permits).map_err(|_| Refusal::Overloaded)
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether it takes no more calls.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Takes no more calls, lets running ones end until `deadline`, then settles the rest as `SHUTTING_DOWN`. A database
    /// that is away then is waited for no longer than callers would.
    pub async fn drain(&self, deadline: Duration) {
        self.draining.store(true, Ordering::Release);
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_ok() {
            return;
        }
        self.stop.cancel();
        if tokio::time::timeout(self.settings.store_patience, self.tasks.wait()).await.is_err() {
            tracing::error!(calls = self.tasks.len(), "the database is away; the ends of these calls are not recorded");
        }
    }
}
