//! Worker programs: what they claim, report and offer on this node (docs/reference/contract.md, section 17).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Engine;
use crate::access::Access;
use crate::workqueue::{ClaimError, ClaimRequest, ClaimedCall, FORGET_MS};
use toolpost_core::domain::Tenant;
use toolpost_store::store::StoreError;
use toolpost_store::store::signals::HintReceiver;
use toolpost_store::store::signals::QueueKey;
use toolpost_store::store::workers::{NotHeld, SeenWorker};

mod forget;
mod give;

/// Interval between two records of the workers that were seen.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between two deletions of workers that are gone.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

/// The rules by which a node serves workers.
#[derive(Debug, Clone, Copy)]
pub struct WorkerRules {
    /// The interval between two looks at the queues that workers wait for, in case a signal was lost; `None` if no other
    /// node exists.
    pub poll: Option<Duration>,
    /// The time after which the tools of workers that are gone are removed, in milliseconds; 0 means never.
    pub forget_ms: u64,
}

/// The interface of workers.
#[derive(Debug, Clone, Copy)]
pub struct Workers<'a> {
    pub(super) engine: &'a Arc<Engine>,
}

impl Workers<'_> {
    /// Waits until calls of the queue are available, at most for the time of the request, and gives them to the worker.
    ///
    /// # Errors
    /// Returns a [`ClaimError`] if the database fails.
    pub async fn claim(
        &self,
        access: &Access,
        request: ClaimRequest,
        sdk: Option<Arc<str>>,
    ) -> Result<Vec<ClaimedCall>, ClaimError> {
        let (tenant, allowed) = (access.tenant().clone(), access.caller().tools.clone());
        self.see(&tenant, &request.queue, &request.worker, sdk);
        self.engine.workqueue.claims.claim((tenant, allowed), request, &self.engine.shutdown.drain).await
    }

    /// Renews the leases of a worker's calls. Returns those of these calls that it no longer has.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn heartbeat(
        &self,
        access: &Access,
        (queue, worker): (&Arc<str>, &Arc<str>),
        calls: &[Uuid],
        sdk: Option<Arc<str>>,
    ) -> Result<NotHeld, StoreError> {
        self.see(access.tenant(), queue, worker, sdk);
        self.engine.stores.renew_leases((access.tenant(), queue), worker, calls).await
    }

    /// Records which tools a worker offers.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn offer_tools(&self, seen: SeenWorker, tools: &[String]) -> Result<(), StoreError> {
        self.engine.stores.set_worker_tools(&seen, tools).await?;
        self.engine.workqueue.presence.see(seen);
        Ok(())
    }

    /// Stores which workers this node has seen, so that a list contains them.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn note_seen(&self) -> Result<(), StoreError> {
        self.engine.workqueue.presence.note(&self.engine.stores).await
    }

    /// Records that a worker was seen.
    pub fn see(&self, tenant: &Tenant, queue: &Arc<str>, worker: &Arc<str>, sdk: Option<Arc<str>>) {
        let (queue, worker) = (queue.clone(), worker.clone());
        self.engine.workqueue.presence.see(SeenWorker { tenant: tenant.clone(), queue, worker, sdk });
    }
}

impl Engine {
    /// Returns the interface of worker programs.
    pub fn workers(self: &Arc<Self>) -> Workers<'_> {
        Workers { engine: self }
    }

    /// Returns a future that gives calls to workers until `stop` fires. It receives signals from now on.
    pub fn serve_workers(
        self: &Arc<Self>,
        rules: WorkerRules,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let work = self.stores.signals().work();
        serve(self.clone(), rules, work, stop)
    }
}

/// Gives calls to waiting workers, and keeps what is known of workers, until `stop` fires.
pub(super) async fn serve(
    engine: Arc<Engine>,
    rules: WorkerRules,
    work: HintReceiver<QueueKey>,
    stop: CancellationToken,
) {
    let giving = give::run(&engine, work, rules.poll);
    let keeping = keep(&engine, rules);
    stop.run_until_cancelled(async { tokio::join!(giving, keeping) }).await;
}

async fn keep(engine: &Arc<Engine>, rules: WorkerRules) {
    let (mut note, mut forget) = (tokio::time::interval(NOTE_INTERVAL), forget::interval(rules.forget_ms));
    note.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_cleanup = Instant::now();
    loop {
        let done = tokio::select! {
            _ = note.tick() => {
                engine.workqueue.presence.see_waiting(engine.workqueue.claims.waiting());
                engine.workqueue.presence.note(&engine.stores).await
            }
            () = engine.workqueue.presence.has_new() => engine.workqueue.presence.note(&engine.stores).await,
            () = forget::due(&mut forget) => forget::forget_tools(engine, rules.forget_ms).await,
        };
        if let Err(error) = done {
            // The next tick repeats it.
            tracing::debug!(%error, "cannot record workers");
        }
        if last_cleanup.elapsed() > CLEANUP_INTERVAL {
            last_cleanup = Instant::now();
            let _ = engine.stores.delete_gone_workers(FORGET_MS).await;
        }
    }
}
