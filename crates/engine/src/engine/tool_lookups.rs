//! Looks in the database for tools that this node does not know, before their calls end `TOOL_NOT_FOUND`: another node may
//! have registered them a moment ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Engine;
use super::submission::Submission;
use crate::access::Access;
use crate::registry::{Lookup, View};
use toolpost_core::domain::{Call, Caller, Scopes, Tenant};
use toolpost_store::store::StoreError;

/// Maximum duration of a look-up, so that a slow database does not delay the failure of an unknown name for long.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Look-ups of unknown tools. One reads at a time, and answers all that were waiting for the same tenant, so that unknown
/// names cannot occupy the database.
#[derive(Debug)]
pub(super) struct ToolLookups {
    reading: Semaphore,
    /// The number of requests.
    requests: AtomicU64,
    /// The tenant of the last successful look-up, and the number of requests before it began.
    answered: Mutex<Option<(Tenant, u64)>>,
}

impl Default for ToolLookups {
    fn default() -> Self {
        Self { reading: Semaphore::new(1), requests: AtomicU64::new(0), answered: Mutex::default() }
    }
}

impl ToolLookups {
    fn is_answered(&self, tenant: &Tenant, number: u64) -> bool {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.as_ref().is_some_and(|(of, before)| of == tenant && *before >= number)
    }
}

/// Returns `true` if a call of the submission has a name that this node does not know.
pub(super) fn has_unknown_tool(access: &Access, submission: &Submission) -> bool {
    let snapshot = access.snapshot();
    let view = View::from(&**snapshot);
    let is_unknown = |name: &str| matches!(view.find(name), Lookup::Missing) && snapshot.system(name).is_none();
    submission.calls.iter().any(|call| is_unknown(&call.name))
}

/// Reads the tools of a tenant again if they have changed. A failure leaves the tools as they are.
pub(super) async fn look_up(engine: &Engine, access: &Access) {
    match tokio::time::timeout(TIMEOUT, look_up_in_turn(engine, access)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "cannot look up an unknown tool"),
        Err(_) => tracing::debug!("the look-up of an unknown tool takes too long"),
    }
}

async fn look_up_in_turn(engine: &Engine, access: &Access) -> Result<(), StoreError> {
    let lookups = &engine.tool_lookups;
    let number = lookups.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let Ok(_permit) = lookups.reading.acquire().await else { return Ok(()) };
    if lookups.is_answered(access.tenant(), number) {
        return Ok(());
    }
    let before = lookups.requests.load(Ordering::SeqCst);
    refresh(engine, access).await?;
    *lookups.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some((access.tenant().clone(), before));
    Ok(())
}

/// Reads the tools of a tenant again if the database has another version.
pub(super) async fn refresh(engine: &Engine, access: &Access) -> Result<(), StoreError> {
    if engine.registry.version_of(access.tenant()) != Some(access.store().tools_version().await?) {
        engine.registry.reload(access.store()).await?;
    }
    Ok(())
}

/// Opens the tenant of a call for its original caller. If this node does not know the tool of the call, another one may have
/// registered it a moment ago, and the tools are read again.
pub(super) async fn access_of(engine: &Engine, call: &Call) -> Result<Access, StoreError> {
    let identity = call.caller.clone();
    let caller = Caller {
        tenant: call.tenant.clone(),
        scopes: identity.as_ref().map_or(Scopes::default(), |identity| identity.scopes),
        tools: call.allowed.clone(),
        queues: None,
        key: identity.as_ref().and_then(|identity| identity.key),
        identity,
    };
    let access = Access::open(caller, &engine.stores, &engine.registry).await?;
    let is_known = access.snapshot().get(&call.name).is_some() || access.snapshot().system(&call.name).is_some();
    if !is_known {
        refresh(engine, &access).await?;
    }
    Ok(access)
}
