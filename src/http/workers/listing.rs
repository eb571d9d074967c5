//! `GET /workers`: the workers and the queues of a tenant.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::responses::Unavailable;
use super::super::{Api, HttpResult, reply};
use crate::domain::Time;
use crate::store::workers::{QueueLoad, WorkerRow};

/// A worker.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Worker)]
struct WorkerView {
    /// The name.
    worker: String,
    /// The queue.
    queue: String,
    /// The tools that the worker has registered.
    tools: Vec<String>,
    /// Number of calls that it has.
    running: i64,
    /// The time of its last request, accurate to a few seconds.
    last_seen_at: Time,
    /// The `User-Agent` of its last request, shortened.
    sdk: Option<String>,
}

/// A queue.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = WorkerQueue)]
struct QueueView {
    /// The name.
    queue: String,
    /// Number of calls that no worker has.
    waiting: i64,
    /// Number of calls that workers have.
    running: i64,
    /// The age of the oldest waiting call, in milliseconds; `null` if none waits.
    oldest_ms: Option<i64>,
}

/// The workers and queues of a tenant.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Workers)]
struct WorkersView {
    /// The workers, by queue and name. A worker without tools is listed for a day after its last request.
    workers: Vec<WorkerView>,
    /// The queues that have calls or workers, by name.
    queues: Vec<QueueView>,
}

/// Lists the workers and the queues.
#[utoipa::path(get, path = "/workers", operation_id = "list_workers", tag = "workers",
    security(("api_key" = ["read"]), ("api_key" = ["work"])),
    responses((status = 200, description = "The workers and queues", body = WorkersView), Unavailable))]
pub(in super::super) async fn list(Api { state, access }: Api) -> HttpResult {
    let (stores, tenant, caller) = (&state.stores, access.tenant(), access.caller());
    state.engine.workers().note_seen().await?;
    let mut tools: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (queue, worker, tool) in stores.worker_tools(tenant).await? {
        if caller.may_have(&tool) {
            tools.entry((queue, worker)).or_default().push(tool);
        }
    }
    let claimed = stores.claimed_calls(tenant).await?.into_iter();
    let mut running: BTreeMap<(String, String), i64> =
        claimed.map(|(queue, worker, calls)| ((queue, worker), calls)).collect();
    let view = |WorkerRow { queue, worker, sdk, last_seen_at }| {
        let key = (queue, worker);
        let (tools, running) = (tools.remove(&key).unwrap_or_default(), running.remove(&key).unwrap_or(0));
        let (queue, worker) = key;
        WorkerView { worker, queue, tools, running, last_seen_at, sdk }
    };
    let workers: Vec<WorkerView> =
        stores.workers(tenant).await?.into_iter().filter(|row| caller.may_fetch(&row.queue)).map(view).collect();
    let loads = stores.queue_loads(Some(tenant)).await?;
    let queues = queues_of(&workers, loads.into_iter().filter(|load| caller.may_fetch(&load.queue)));
    Ok(reply::ok(&WorkersView { workers, queues }))
}

fn queues_of(workers: &[WorkerView], loads: impl Iterator<Item = QueueLoad>) -> Vec<QueueView> {
    let view = |QueueLoad { queue, waiting, running, oldest_ms, .. }| QueueView { queue, waiting, running, oldest_ms };
    let mut queues: Vec<QueueView> = loads.map(view).collect();
    let known: BTreeSet<String> = queues.iter().map(|queue| queue.queue.clone()).collect();
    let idle: BTreeSet<String> = workers.iter().map(|worker| worker.queue.clone()).collect();
    queues.extend(idle.difference(&known).map(|queue| QueueView { queue: queue.clone(), ..QueueView::default() }));
    queues.sort_by(|one, other| one.queue.cmp(&other.queue));
    queues
}
