//! Removal of tools whose last worker is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use crate::engine::Engine;
use toolpost_core::domain::{ExecutorSpec, Source};
use toolpost_store::store::StoreError;
use toolpost_store::store::workers::OfferedTool;

/// The longest and the shortest interval between two checks.
const LONGEST: Duration = Duration::from_secs(30);
const SHORTEST: Duration = Duration::from_millis(100);

/// Returns the interval between two checks; `None` if tools are never removed.
pub(super) fn interval(forget_ms: u64) -> Option<Interval> {
    let every = (Duration::from_millis(forget_ms) / 4).clamp(SHORTEST, LONGEST);
    let mut interval = (forget_ms > 0).then(|| tokio::time::interval(every))?;
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(interval)
}

/// Waits for the next check.
pub(super) async fn due(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// Removes the tools whose last worker was seen before that time.
pub(super) async fn forget_tools(engine: &Arc<Engine>, forget_ms: u64) -> Result<(), StoreError> {
    // A worker that waits at this node was seen just now.
    engine.workqueue.presence.see_waiting(engine.workqueue.claims.waiting());
    engine.workqueue.presence.note(&engine.stores).await?;
    for gone in engine.stores.abandoned_tools(forget_ms).await? {
        forget(engine, &gone).await?;
    }
    Ok(())
}

async fn forget(engine: &Engine, gone: &OfferedTool) -> Result<(), StoreError> {
    let store = engine.stores.for_tenant(&gone.tenant);
    engine.registry.open(&store).await?;
    engine.registry.reload(&store).await?;
    if let Some(registered) = engine.registry.registered(&gone.tenant, &gone.tool)
        && registered.made.source == Source::Api
        && let Ok(entry) = registered.entry()
        && matches!(&entry.definition.executor, ExecutorSpec::Worker(spec) if spec.queue == gone.queue)
        && let Some(commit) = store.delete_tool(&gone.tool, Some(registered.made.revision)).await?
    {
        tracing::info!(tool = gone.tool, queue = gone.queue, "removed a tool whose workers are gone");
        engine.registry.apply(&store, commit).await?;
    }
    engine.stores.forget_worker_tool(gone).await
}
