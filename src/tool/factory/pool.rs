//! The pool of one tool's instances by scope. Concurrent calls share one creation; an instance is disposed of when its
//! last user drops it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use uuid::Uuid;

use super::{ToolFactory, dispose_logged};
use crate::domain::Tenant;
use crate::executor::instances::{InstanceScope, Instances, Pool};
use crate::tool::error::panic_message;
use crate::tool::{Run, ToolError};

/// The owner of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Call(Uuid),
    Session(Tenant, Arc<str>),
    Shared(Tenant),
}

/// A tool instance, which is disposed of when the last handle is dropped.
pub struct InstanceHandle<F: ToolFactory> {
    /// `None` only during `drop`.
    tool: Option<F::Tool>,
    factory: Arc<F>,
    instances: Instances,
}

/// A slot for an instance, empty until the instance is created.
struct InstanceSlot<F: ToolFactory> {
    made: Arc<OnceCell<Arc<InstanceHandle<F>>>>,
    used_at: Instant,
}

/// The instances of one tool.
pub struct InstancePool<F: ToolFactory> {
    factory: Arc<F>,
    instances: Instances,
    slots: Mutex<HashMap<Owner, InstanceSlot<F>>>,
}

impl<F: ToolFactory> InstanceHandle<F> {
    /// Returns the tool.
    #[expect(clippy::expect_used, reason = "only `drop` takes it")]
    pub fn tool(&self) -> &F::Tool {
        self.tool.as_ref().expect("an instance that is not dropped")
    }
}

impl<F: ToolFactory> Drop for InstanceHandle<F> {
    fn drop(&mut self) {
        if let Some(tool) = self.tool.take() {
            self.instances.dispose(dispose_logged(self.factory.clone(), tool));
        }
    }
}

impl<F: ToolFactory> InstancePool<F> {
    pub fn new(factory: Arc<F>, instances: Instances) -> Self {
        Self { factory, instances, slots: Mutex::default() }
    }

    /// Returns the instance for a run, and creates it if necessary.
    ///
    /// # Errors
    /// Returns an error if the instance cannot be created.
    pub async fn get(&self, run: &Run) -> Result<Arc<InstanceHandle<F>>, ToolError> {
        let owner = match (F::SCOPE, run.shared_session()) {
            (InstanceScope::Shared, _) => Owner::Shared(run.tenant().clone()),
            (InstanceScope::Session, Some(session)) => Owner::Session(run.tenant().clone(), session.clone()),
            (InstanceScope::Session, None) | (InstanceScope::Call, _) => Owner::Call(run.id()),
        };
        let slot = {
            let mut slots = self.slots();
            let slot =
                slots.entry(owner).or_insert_with(|| InstanceSlot { made: Arc::default(), used_at: Instant::now() });
            slot.used_at = Instant::now();
            slot.made.clone()
        };
        // If the creating call is dropped, the next waiting call creates the instance.
        slot.get_or_try_init(|| self.make(run.clone())).await.cloned()
    }

    async fn make(&self, run: Run) -> Result<Arc<InstanceHandle<F>>, ToolError> {
        let made = AssertUnwindSafe(async { self.factory.make(run).await }).catch_unwind().await;
        let tool = made.unwrap_or_else(|payload| {
            Err(ToolError::new(format!(
                "the tool instance could not be created: the factory panicked: {}",
                panic_message(&*payload)
            )))
        })?;
        Ok(Arc::new(InstanceHandle {
            tool: Some(tool),
            factory: self.factory.clone(),
            instances: self.instances.clone(),
        }))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Owner, InstanceSlot<F>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, owner: &Owner) {
        let released = self.slots().remove(owner);
        // Dropped outside of the lock, because it starts the disposal.
        drop(released);
    }
}

impl<F: ToolFactory> InstanceSlot<F> {
    /// Returns `true` if no call uses or creates the instance, and the last use was at least `idle` ago.
    fn is_idle(&self, idle: Duration) -> bool {
        let is_used =
            Arc::strong_count(&self.made) > 1 || self.made.get().is_some_and(|held| Arc::strong_count(held) > 1);
        !is_used && self.used_at.elapsed() >= idle
    }
}

impl<F: ToolFactory> Pool for InstancePool<F> {
    fn scope(&self) -> InstanceScope {
        F::SCOPE
    }

    fn release_call(&self, call: Uuid) {
        if F::SCOPE != InstanceScope::Shared {
            self.release(&Owner::Call(call));
        }
    }

    fn release_session(&self, tenant: &Tenant, session: &str) {
        if F::SCOPE == InstanceScope::Session {
            self.release(&Owner::Session(tenant.clone(), session.into()));
        }
    }

    fn release_idle(&self, idle: Duration) {
        if F::SCOPE != InstanceScope::Session {
            return;
        }
        let mut released = Vec::new();
        self.slots().retain(|owner, slot| {
            let is_released = matches!(owner, Owner::Session(..)) && slot.is_idle(idle);
            if is_released {
                released.push(slot.made.clone());
            }
            !is_released
        });
    }

    fn release_all(&self) {
        let released = std::mem::take(&mut *self.slots());
        drop(released);
    }
}
