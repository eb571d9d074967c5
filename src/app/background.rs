//! What goes on beside the calls: other nodes' changes are shown, and what nobody uses is let go.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::Tenant;
use crate::executor::Instances;
use crate::hooks::Hooks;
use crate::registry::Registry;
use crate::registry::discovery::SharedCatalogs;
use crate::store::{StoreError, Stores};
use crate::telemetry::{Metrics, metrics};
use crate::tool::system;
use crate::upstreams::Upstreams;

/// How often the registered tools are compared with what other nodes may have made of them.
const LOOK_AT_TOOLS: Duration = Duration::from_secs(1);
/// How often what commits counted is added to the sums.
const FOLD_STATS: Duration = Duration::from_secs(1);

/// The names of the groups that sessions may switch themselves.
pub(super) fn manageable_groups(shown: &SharedCatalogs) -> system::Manageable {
    // What is shown holds the tool that asks: it must not be held by it in turn.
    let shown = Arc::downgrade(shown);
    Arc::new(move |tenant: &Tenant| {
        // The call that asks holds the shelf of its tenant.
        let Some(shelf) = shown.upgrade().and_then(|shown| shown.of(tenant)) else { return Vec::new() };
        let snapshot = shelf.snapshot();
        let groups = snapshot.groups().values();
        groups.filter(|group| group.manageable).map(|group| group.name.clone()).collect()
    })
}

/// Reads the registered tools, hooks and upstream servers again whenever another node, or the command line, has changed them.
pub(super) async fn follow_tools(
    stores: Stores,
    (registry, hooks, upstreams): (Arc<Registry>, Arc<Hooks>, Arc<Upstreams>),
    starts: bool,
    stop: CancellationToken,
) {
    // Up to which version the changes of other tenants are shown.
    let mut shown = -1;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AT_TOOLS) => {}
        }
        // A database that is away is told of by the journal; the next look finds it again.
        let Ok(version) = stores.tools_clock().await else { continue };
        let default = Tenant::default();
        // Likewise: what could not be read now is read at the next look.
        if Some(version) != registry.version_of(&default) {
            let _ = registry.reload(&stores.of(&default)).await;
        }
        if version != shown && reload_others(&stores, &registry, shown).await.is_ok() {
            shown = version;
        }
        if version != hooks.version() {
            let _ = hooks.reload(&stores).await;
        }
        if version != upstreams.version() {
            let _ = upstreams.reload(starts).await;
        }
    }
}

/// Reads again what tenants have changed behind this version, as far as anybody asks for it.
async fn reload_others(stores: &Stores, registry: &Registry, behind: i64) -> Result<(), StoreError> {
    for tenant in stores.changed_tenants(behind).await? {
        if !tenant.is_default() && registry.shelf(&tenant).is_some() {
            registry.reload(&stores.of(&tenant)).await?;
        }
    }
    Ok(())
}

/// Keeps the sums of the stats near what is counted, so that whoever asks does not wait long.
pub(super) async fn fold_stats(stores: Stores, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(FOLD_STATS) => {}
        }
        // A database that is away is told of by the journal; the next turn goes on where this one stopped.
        let _ = stores.fold_stats().await;
    }
}

/// Lets go of what tools keep for sessions that do nothing any more.
pub(super) async fn end_idle_instances(instances: Instances, idle: Duration, stop: CancellationToken) {
    let look = (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(60));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(look) => instances.release_idle(idle),
        }
    }
}

/// Keeps samples from gathering in memory while nobody asks for them.
pub(super) async fn keep_metrics(metrics: Metrics, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(metrics::UPKEEP) => metrics.run_upkeep(),
        }
    }
}
