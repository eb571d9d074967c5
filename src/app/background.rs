//! Background tasks: following changes of other nodes, folding statistics, and releasing idle instances.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::budgets::Budgets;
use crate::domain::{Clock, Tenant};
use crate::executor::Instances;
use crate::hooks::Hooks;
use crate::policies::Policies;
use crate::registry::Registry;
use crate::registry::discovery::SharedCatalogs;
use crate::store::signals::Wakeup;
use crate::store::{StoreError, Stores};
use crate::telemetry::{Metrics, metrics};
use crate::tool::system;
use crate::upstreams::Upstreams;

/// The interval for adding the counts of commits to the totals.
const FOLD_STATS: Duration = Duration::from_secs(1);
/// The interval for returning what idle budgets do not need.
const RETURN_BUDGETS: Duration = Duration::from_secs(1);
/// The interval for indexing the words of ended calls.
const INDEX_WORDS: Duration = Duration::from_millis(500);

/// The rules for calls: hooks, policies and budgets.
pub(super) type CallRules = (Arc<Hooks>, Arc<Policies>, Arc<Budgets>);

/// The ways to learn of changes by other nodes.
pub(super) struct Changes {
    /// The signal of a change.
    pub changed: Wakeup,
    /// The interval between two checks without a signal.
    pub poll: Duration,
}

impl Changes {
    /// Waits for a signal, or for the next check. Returns `false` once `stop` fires.
    async fn may_have_happened(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.changed.woken() => true,
            () = tokio::time::sleep(self.poll) => true,
        }
    }
}

/// Returns a function that lists the groups that sessions can switch.
pub(super) fn manageable_groups(catalogs: &SharedCatalogs) -> system::Manageable {
    // The catalogs contain the tool that owns this function, so a strong reference would be a cycle.
    let catalogs = Arc::downgrade(catalogs);
    Arc::new(move |tenant: &Tenant| {
        // A running call holds the catalog of its tenant, so the weak reference is valid.
        let Some(catalog) = catalogs.upgrade().and_then(|catalogs| catalogs.of(tenant)) else { return Vec::new() };
        let snapshot = catalog.snapshot();
        let groups = snapshot.groups().values();
        groups.filter(|group| group.manageable).map(|group| group.name.clone()).collect()
    })
}

/// Reloads registered tools, hooks, policies, budgets and upstream servers after a change by another node or the command line.
pub(super) async fn follow_tools(
    stores: Stores,
    (registry, upstreams): (Arc<Registry>, Arc<Upstreams>),
    (hooks, policies, budgets): CallRules,
    starts: bool,
    mut changes: Changes,
    stop: CancellationToken,
) {
    // The version up to which the changes of other tenants are loaded, and the one that other nodes know to be in use here.
    let (mut loaded, mut confirmed) = (-1, -1);
    while changes.may_have_happened(&stop).await {
        // The journal logs an unavailable database. The next iteration retries.
        let Ok(version) = stores.tools_clock().await else { continue };
        let default = Tenant::default();
        // A failed reload is retried in the next iteration.
        if Some(version) != registry.version_of(&default) {
            let _ = registry.reload(&stores.of(&default)).await;
        }
        if version != loaded && reload_others(&stores, &registry, loaded).await.is_ok() {
            loaded = version;
        }
        if version != hooks.version() {
            let _ = hooks.reload(&stores).await;
        }
        if version != policies.version() {
            let _ = policies.reload(&stores).await;
        }
        if version != budgets.version() {
            let _ = budgets.reload().await;
        }
        let in_use =
            [registry.version_of(&default).unwrap_or(-1), hooks.version(), policies.version(), budgets.version()];
        let in_use = in_use.into_iter().fold(loaded, i64::min);
        if in_use > confirmed {
            confirmed = in_use;
            stores.signals().confirm_tools(in_use);
        }
        if version != upstreams.version() {
            let _ = upstreams.reload(starts).await;
        }
    }
}

/// Reloads the tenants that changed after this version, if their catalogs are loaded.
async fn reload_others(stores: &Stores, registry: &Registry, after: i64) -> Result<(), StoreError> {
    for tenant in stores.changed_tenants(after).await? {
        if !tenant.is_default() && registry.shelf(&tenant).is_some() {
            registry.reload(&stores.of(&tenant)).await?;
        }
    }
    Ok(())
}

/// Folds the counts of commits into the totals periodically, so that queries have little left to fold.
pub(super) async fn fold_stats(stores: Stores, stop: CancellationToken) {
    while timeout(FOLD_STATS, stop.cancelled()).await.is_err() {
        // The journal logs an unavailable database. The next iteration continues from the same position.
        let _ = stores.fold_stats().await;
    }
}

/// Indexes the words of ended calls periodically. With several nodes, one does it at a time.
pub(super) async fn index_words(stores: Stores, node: Arc<str>, clock: Clock, stop: CancellationToken) {
    while timeout(INDEX_WORDS, stop.cancelled()).await.is_err() {
        // The journal logs an unavailable database. The next iteration continues from the same position.
        while let Ok(true) = stores.index_words(&node, clock.now()).await {}
    }
}

/// Returns what this node holds of budgets and does not need: when another node asks for it, and when it is idle.
pub(super) async fn return_budgets(budgets: Arc<Budgets>, mut wanted: Wakeup, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wanted.woken() => {}
            () = tokio::time::sleep(RETURN_BUDGETS) => {}
        }
        // The journal logs an unavailable database. The next iteration returns it.
        let _ = budgets.return_spare().await;
    }
}

/// Releases the tool instances of idle sessions.
pub(super) async fn end_idle_instances(instances: Instances, idle: Duration, stop: CancellationToken) {
    let interval = (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(60));
    while timeout(interval, stop.cancelled()).await.is_err() {
        instances.release_idle(idle);
    }
}

/// Runs the upkeep of the metrics periodically.
pub(super) async fn keep_metrics(metrics: Metrics, stop: CancellationToken) {
    while timeout(metrics::UPKEEP, stop.cancelled()).await.is_err() {
        metrics.run_upkeep();
    }
}
