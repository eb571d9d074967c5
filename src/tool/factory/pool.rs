//! The instances of one tool by their scope. One is made for all that ask at once, and goes when its last user lets it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use uuid::Uuid;

use super::{ToolFactory, disposal};
use crate::domain::Tenant;
use crate::executor::instances::{InstanceScope, Instances, Pool};
use crate::tool::error::panic_message;
use crate::tool::{Run, ToolError};

/// Whose an instance is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Call(Uuid),
    Session(Tenant, Arc<str>),
    Shared(Tenant),
}

/// An instance. Whoever drops the last handle has it disposed of.
pub struct InstanceHandle<F: ToolFactory> {
    /// `None` only while it is dropped.
    tool: Option<F::Tool>,
    factory: Arc<F>,
    instances: Instances,
}

/// A place for an instance: it is there once somebody has made it.
struct InstanceSlot<F: ToolFactory> {
    made: Arc<OnceCell<Arc<InstanceHandle<F>>>>,
    used_at: Instant,
}

/// The instances of one tool.
pub struct InstancePool<F: ToolFactory> {
    factory: Arc<F>,
    instances: Instances,
    places: Mutex<HashMap<Owner, InstanceSlot<F>>>,
}

impl<F: ToolFactory> InstanceHandle<F> {
    /// The tool.
    #[expect(clippy::expect_used, reason = "it is taken by `drop` alone")]
    pub fn tool(&self) -> &F::Tool {
        self.tool.as_ref().expect("an instance that is not dropped")
    }
}

impl<F: ToolFactory> Drop for InstanceHandle<F> {
    fn drop(&mut self) {
        if let Some(tool) = self.tool.take() {
            self.instances.dispose(disposal(self.factory.clone(), tool));
        }
    }
}

impl<F: ToolFactory> InstancePool<F> {
    pub fn new(factory: Arc<F>, instances: Instances) -> Self {
        Self { factory, instances, places: Mutex::default() }
    }

    /// The instance for this run.
    ///
    /// # Errors
    /// If it could not be made.
    pub async fn get(&self, run: &Run) -> Result<Arc<InstanceHandle<F>>, ToolError> {
        let owner = match (F::SCOPE, run.shared_session()) {
            (InstanceScope::Shared, _) => Owner::Shared(run.tenant().clone()),
            (InstanceScope::Session, Some(session)) => Owner::Session(run.tenant().clone(), session.clone()),
            (InstanceScope::Session, None) | (InstanceScope::Call, _) => Owner::Call(run.id()),
        };
        let place = {
            let mut places = self.places();
            let place =
                places.entry(owner).or_insert_with(|| InstanceSlot { made: Arc::default(), used_at: Instant::now() });
            place.used_at = Instant::now();
            place.made.clone()
        };
        // If whoever makes it gives up, the next in the line makes it.
        place.get_or_try_init(|| self.make(run.clone())).await.cloned()
    }

    async fn make(&self, run: Run) -> Result<Arc<InstanceHandle<F>>, ToolError> {
        let made = AssertUnwindSafe(async { self.factory.make(run).await }).catch_unwind().await;
        let tool = made.unwrap_or_else(|payload| {
            Err(ToolError::new(format!("it could not be made: the factory panicked: {}", panic_message(&*payload))))
        })?;
        Ok(Arc::new(InstanceHandle {
            tool: Some(tool),
            factory: self.factory.clone(),
            instances: self.instances.clone(),
        }))
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Owner, InstanceSlot<F>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, owner: &Owner) {
        let gone = self.places().remove(owner);
        // Disposed of outside of the lock.
        drop(gone);
    }
}

impl<F: ToolFactory> InstanceSlot<F> {
    /// Nobody uses it, or is about to make it.
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
        let mut gone = Vec::new();
        self.places().retain(|owner, place| {
            let is_gone = matches!(owner, Owner::Session(..)) && place.is_idle(idle);
            if is_gone {
                gone.push(place.made.clone());
            }
            !is_gone
        });
    }

    fn release_all(&self) {
        let gone = std::mem::take(&mut *self.places());
        drop(gone);
    }
}
