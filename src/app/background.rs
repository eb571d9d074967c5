//! Background tasks: folding statistics, indexing words, and releasing idle instances.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::budgets::Budgets;
use crate::domain::{Clock, Tenant};
use crate::executor::Instances;
use crate::registry::discovery::SharedCatalogs;
use crate::store::Stores;
use crate::store::signals::Wakeup;
use crate::system_tools;
use crate::telemetry::{Metrics, metrics};

/// The interval for adding the counts of commits to the totals.
const FOLD_STATS: Duration = Duration::from_secs(1);
/// The interval for returning what idle budgets do not need.
const RETURN_BUDGETS: Duration = Duration::from_secs(1);
/// The interval for indexing the words of ended calls.
const INDEX_WORDS: Duration = Duration::from_millis(500);

/// Returns a function that lists the groups that sessions can switch.
pub(super) fn manageable_groups(catalogs: &SharedCatalogs) -> system_tools::Manageable {
    // The catalogs contain the tool that owns this function, so a strong reference would be a cycle.
    let catalogs = Arc::downgrade(catalogs);
    Arc::new(move |tenant: &Tenant| {
        // A running call holds the catalog of its tenant, so the weak reference is valid.
        let Some(catalog) = catalogs.upgrade().and_then(|catalogs| catalogs.get(tenant)) else { return Vec::new() };
        let snapshot = catalog.snapshot();
        let groups = snapshot.groups().values();
        groups.filter(|group| group.manageable).map(|group| group.name.clone()).collect()
    })
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
