//! Changes of tools and rules by other nodes or the command line: this node reads them, and confirms that it uses them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::budgets::Budgets;
use crate::domain::Tenant;
use crate::hooks::Hooks;
use crate::policies::Policies;
use crate::registry::Registry;
use crate::store::signals::Wakeup;
use crate::store::{StoreError, Stores};
use crate::upstreams::Upstreams;

/// The rules for calls: hooks, policies and budgets.
pub(super) type CallRules = (Arc<Hooks>, Arc<Policies>, Arc<Budgets>);

/// The tools and rules of this node, which follow those in the database.
pub(super) struct Changes {
    stores: Stores,
    registry: Arc<Registry>,
    upstreams: Arc<Upstreams>,
    rules: CallRules,
    /// Whether upstream servers are started.
    starts: bool,
    /// The version up to which the changes of other tenants are loaded.
    loaded: i64,
    /// The version that the other nodes know to be in use here.
    confirmed: i64,
}

impl Changes {
    /// Creates the follower of a node that has read the tools and rules of the default tenant.
    pub fn new(
        stores: Stores,
        (registry, upstreams): (Arc<Registry>, Arc<Upstreams>),
        rules: CallRules,
        starts: bool,
    ) -> Self {
        Self { stores, registry, upstreams, rules, starts, loaded: -1, confirmed: -1 }
    }

    /// Catches up after each signal of a change, and at this interval, until `stop` fires.
    pub async fn follow(mut self, mut changed: Wakeup, poll: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.woken() => {}
                () = tokio::time::sleep(poll) => {}
            }
            self.catch_up().await;
        }
    }

    /// Reads what has changed, and confirms it to the other nodes.
    pub async fn catch_up(&mut self) {
        // The journal logs an unavailable database. The next time retries.
        let Ok(version) = self.stores.tools_clock().await else { return };
        let default = Tenant::default();
        let (hooks, policies, budgets) = &self.rules;
        // A failed reload is retried the next time.
        if Some(version) != self.registry.version_of(&default) {
            let _ = self.registry.reload(&self.stores.for_tenant(&default)).await;
        }
        if version != self.loaded && self.reload_others().await.is_ok() {
            self.loaded = version;
        }
        if version != hooks.version() {
            let _ = hooks.reload(&self.stores).await;
        }
        if version != policies.version() {
            let _ = policies.reload(&self.stores).await;
        }
        if version != budgets.version() {
            let _ = budgets.reload().await;
        }
        let in_use =
            [self.registry.version_of(&default).unwrap_or(-1), hooks.version(), policies.version(), budgets.version()];
        let in_use = in_use.into_iter().fold(self.loaded, i64::min);
        if in_use > self.confirmed {
            self.confirmed = in_use;
            self.stores.signals().confirm_tools(in_use);
        }
        if version != self.upstreams.version() {
            let _ = self.upstreams.reload(self.starts).await;
        }
    }

    /// Reloads the tenants that have changed, if their catalogs are loaded or are being loaded.
    async fn reload_others(&self) -> Result<(), StoreError> {
        for tenant in self.stores.changed_tenants(self.loaded).await? {
            if !tenant.is_default() && self.registry.is_in_use(&tenant) {
                self.registry.reload(&self.stores.for_tenant(&tenant)).await?;
            }
        }
        Ok(())
    }
}
