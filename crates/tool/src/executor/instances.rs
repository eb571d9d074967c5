//! Instances of tools: created on demand, kept as long as their scope lasts, disposed of at its end.
//!
//! This module has the parts that all pools share. `tool::factory` defines what an instance is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use toolpost_core::domain::Tenant;

/// Maximum time for the disposals of one scope at shutdown.
const MAX_DISPOSAL_TIME: Duration = Duration::from_secs(5);

/// The lifetime of an instance and the calls that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum InstanceScope {
    /// One call with all of its attempts.
    #[default]
    Call,
    /// The calls of one session; a call without a session has its own instance.
    Session,
    /// All calls of the tool by one tenant.
    Shared,
}

/// The instances of one tool.
pub trait Pool: Send + Sync + 'static {
    /// Returns the scope of the instances.
    fn scope(&self) -> InstanceScope;

    /// Releases the instance of a call.
    fn release_call(&self, call: Uuid);

    /// Releases the instance of a session.
    fn release_session(&self, tenant: &Tenant, session: &str);

    /// Releases the instances of sessions that were idle for this time.
    fn release_idle(&self, idle: Duration);

    /// Releases all instances.
    fn release_all(&self);
}

/// All instances of this node. Cheap to clone.
///
/// A released instance is disposed of once no call uses it.
#[derive(Clone, Default)]
pub struct Instances(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pools: Mutex<Vec<Weak<dyn Pool>>>,
    disposals: TaskTracker,
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Instances").field("pools", &self.pools().len()).finish_non_exhaustive()
    }
}

impl Instances {
    fn pools(&self) -> MutexGuard<'_, Vec<Weak<dyn Pool>>> {
        self.0.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the pool of the ends of sessions and of the service, as long as a tool holds the pool.
    pub fn register(&self, pool: &Arc<dyn Pool>) {
        let mut pools = self.pools();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    pub(crate) fn live(&self) -> Vec<Arc<dyn Pool>> {
        self.pools().iter().filter_map(Weak::upgrade).collect()
    }

    /// Releases the instances of a session that has ended. They are disposed of after its last call.
    pub fn release_session(&self, tenant: &Tenant, session: &str) {
        self.live().iter().for_each(|pool| pool.release_session(tenant, session));
    }

    /// Releases the instances of sessions that were idle for this time.
    pub fn release_idle(&self, idle: Duration) {
        self.live().iter().for_each(|pool| pool.release_idle(idle));
    }

    /// Runs a disposal in the background. Only the shutdown of the service waits for it.
    pub fn dispose(&self, disposal: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) => drop(self.0.disposals.spawn_on(disposal, &runtime)),
            // The process is ending.
            Err(_) => tracing::warn!("an instance of a tool was not disposed of: the runtime has ended"),
        }
    }

    /// Waits until all released instances are disposed of.
    pub async fn wait_disposed(&self) {
        self.0.disposals.close();
        self.0.disposals.wait().await;
    }

    /// Releases all instances, shortest scope first, because instances of calls and sessions may use shared ones.
    /// Disposals that take too long are abandoned.
    pub async fn close(&self) {
        for scope in [InstanceScope::Call, InstanceScope::Session, InstanceScope::Shared] {
            self.live().iter().filter(|pool| pool.scope() == scope).for_each(|pool| pool.release_all());
            if tokio::time::timeout(MAX_DISPOSAL_TIME, self.wait_disposed()).await.is_err() {
                tracing::error!(left = self.0.disposals.len(), "instances of tools were not disposed of in time");
            }
        }
    }
}

/// A guard that releases the instance of a call when dropped.
pub struct CallInstanceGuard {
    /// The pool of the tool.
    pub pool: Arc<dyn Pool>,
    /// The id of the call.
    pub call: Uuid,
}

impl std::fmt::Debug for CallInstanceGuard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CallInstanceGuard").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Drop for CallInstanceGuard {
    fn drop(&mut self) {
        self.pool.release_call(self.call);
    }
}
