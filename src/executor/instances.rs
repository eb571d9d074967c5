//! Instances of tools: made on demand, kept as long as their scope lasts, disposed of at its end.
//!
//! Here is what all pools of instances have in common; what they are of is known where tools are written in Rust.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::domain::Tenant;

/// How long the disposals of one scope may take at the end of the service.
const LAST_DISPOSALS: Duration = Duration::from_secs(5);

/// How long an instance lasts, and who shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum InstanceScope {
    /// One call, with all of its attempts.
    #[default]
    Call,
    /// The calls of one session; a call without one has its own.
    Session,
    /// All calls of the tool by one tenant.
    Shared,
}

/// The instances of one tool.
pub trait Pool: Send + Sync + 'static {
    /// How long they last.
    fn scope(&self) -> InstanceScope;

    /// Lets go of a call's own.
    fn release_call(&self, call: Uuid);

    /// Lets go of a session's.
    fn release_session(&self, tenant: &Tenant, session: &str);

    /// Lets go of those of sessions that did nothing for so long.
    fn release_idle(&self, idle: Duration);

    /// Lets go of all.
    fn release_all(&self);
}

/// All instances of this node. Cheap to clone.
///
/// Whatever is let go is disposed of once nobody uses it any more.
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

    /// From now on the pool hears of the ends of sessions and of the service, as long as there is a tool that has it.
    pub fn register(&self, pool: &Arc<dyn Pool>) {
        let mut pools = self.pools();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    pub(crate) fn live(&self) -> Vec<Arc<dyn Pool>> {
        self.pools().iter().filter_map(Weak::upgrade).collect()
    }

    /// A session has ended: it was deleted, or is no more for another reason. Its instances go once its calls let them.
    pub fn release_session(&self, tenant: &Tenant, session: &str) {
        self.live().iter().for_each(|pool| pool.release_session(tenant, session));
    }

    /// Lets go of what sessions have not used for so long.
    pub fn release_idle(&self, idle: Duration) {
        self.live().iter().for_each(|pool| pool.release_idle(idle));
    }

    /// Does the work of a disposal, which nobody waits for but the end of the service.
    pub fn dispose(&self, disposal: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) => drop(self.0.disposals.spawn_on(disposal, &runtime)),
            // The process is ending.
            Err(_) => tracing::warn!("an instance of a tool was not disposed of: there is no runtime any more"),
        }
    }

    /// Waits until everything that was let go is disposed of.
    pub async fn wait_disposed(&self) {
        self.0.disposals.close();
        self.0.disposals.wait().await;
    }

    /// Lets go of everything, the shortest scope first: what calls and sessions have may need what they share. Whatever
    /// takes too long is given up.
    pub async fn close(&self) {
        for scope in [InstanceScope::Call, InstanceScope::Session, InstanceScope::Shared] {
            self.live().iter().filter(|pool| pool.scope() == scope).for_each(|pool| pool.release_all());
            if tokio::time::timeout(LAST_DISPOSALS, self.wait_disposed()).await.is_err() {
                tracing::error!(left = self.0.disposals.len(), "instances of tools were not disposed of in time");
            }
        }
    }
}

/// A call's own instances are let go when this is dropped.
pub struct CallInstanceGuard {
    pool: Arc<dyn Pool>,
    call: Uuid,
}

impl CallInstanceGuard {
    /// Of this call.
    #[must_use]
    pub fn of(pool: Arc<dyn Pool>, call: Uuid) -> Self {
        Self { pool, call }
    }
}

impl std::fmt::Debug for CallInstanceGuard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CallEnd").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Drop for CallInstanceGuard {
    fn drop(&mut self) {
        self.pool.release_call(self.call);
    }
}
