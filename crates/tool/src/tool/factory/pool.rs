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

use super::ToolFactory;
use crate::executor::instances::{InstanceScope, Instances, Pool};
use crate::tool::error::panic_message;
use crate::tool::{Run, Tool, ToolError};
use toolpost_core::domain::Tenant;

/// Timeout of one disposal.
const DISPOSAL_TIMEOUT: Duration = Duration::from_secs(10);

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
    instance: Arc<OnceCell<Arc<InstanceHandle<F>>>>,
    used_at: Instant,
}

/// The instances of one tool.
pub struct InstancePool<F: ToolFactory> {
    pub factory: Arc<F>,
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
        let owner = match (F::SCOPE, &run.0.session) {
            (InstanceScope::Shared, _) => Owner::Shared(run.tenant().clone()),
            (InstanceScope::Session, Some(session)) => Owner::Session(run.tenant().clone(), session.clone()),
            (InstanceScope::Session, None) | (InstanceScope::Call, _) => Owner::Call(run.id()),
        };
        let used_at = Instant::now();
        let instance = {
            let mut slots = self.slots();
            let slot = slots.entry(owner).or_insert_with(|| InstanceSlot { instance: Arc::default(), used_at });
            slot.used_at = used_at;
            slot.instance.clone()
        };
        // If the creating call is dropped, the next waiting call creates the instance.
        instance.get_or_try_init(|| self.create(run.clone())).await.cloned()
    }

    async fn create(&self, run: Run) -> Result<Arc<InstanceHandle<F>>, ToolError> {
        let created = AssertUnwindSafe(async { self.factory.create(run).await }).catch_unwind().await;
        let tool = created.unwrap_or_else(|payload| {
            let cause = panic_message(&*payload);
            Err(ToolError::new(format!("the tool instance could not be created: the factory panicked: {cause}")))
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
        // Dropped outside of the lock, because it starts the disposal.
        let _released = self.slots().remove(owner);
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
        let is_released = |owner: &Owner, slot: &mut InstanceSlot<F>| {
            let is_used = Arc::strong_count(&slot.instance) > 1
                || slot.instance.get().is_some_and(|instance| Arc::strong_count(instance) > 1);
            matches!(owner, Owner::Session(..)) && !is_used && slot.used_at.elapsed() >= idle
        };
        let _released: Vec<_> = self.slots().extract_if(is_released).collect();
    }

    fn release_all(&self) {
        let _released = std::mem::take(&mut *self.slots());
    }
}

/// Disposes of an instance and logs a failure.
async fn dispose_logged<F: ToolFactory>(factory: Arc<F>, tool: F::Tool) {
    let name = <F::Tool as Tool>::NAME;
    let done = AssertUnwindSafe(async { factory.dispose(tool).await }).catch_unwind();
    let fault = match tokio::time::timeout(DISPOSAL_TIMEOUT, done).await {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) => error.message().to_owned(),
        Ok(Err(payload)) => format!("it panicked: {}", panic_message(&*payload)),
        Err(_) => format!("it took longer than {} s", DISPOSAL_TIMEOUT.as_secs()),
    };
    tracing::warn!(tool = name, fault, "disposing of a tool instance failed");
}
