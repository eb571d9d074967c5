//! The cancellation of calls that their clients no longer want.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use uuid::Uuid;

use crate::access::Access;
use crate::domain::{Call, Tenant};
use crate::engine::{ControlOutcome, Engine, InFlightCalls, RecordError};

/// Interval between two tries to cancel a call that cannot be reached yet.
const INTERVAL: Duration = Duration::from_millis(50);

/// Cancels a call. A call that the database does not allow to cancel ends on its own or by its timeouts.
pub(super) async fn cancel_call(engine: &Engine, tenant: &Tenant, id: Uuid) {
    loop {
        match engine.control().cancel(tenant, id).await {
            // A read-only call that has just started cannot be reached yet.
            Ok(ControlOutcome::NoSuchCall) => tokio::time::sleep(INTERVAL).await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, call = %id, "cannot cancel a call");
                return;
            }
        }
    }
}

type CallEnd = Result<Vec<Arc<Call>>, RecordError>;

/// A call that runs in the task of its client. If the client disconnects, which drops this value, the call is cancelled
/// in a task of its own.
pub(super) struct AwaitedCall {
    ended: Option<Pin<Box<dyn Future<Output = CallEnd> + Send>>>,
    engine: Arc<Engine>,
    access: Access,
    id: Uuid,
}

impl AwaitedCall {
    pub fn new(submitted: InFlightCalls, engine: Arc<Engine>, access: Access, id: Uuid) -> Self {
        Self { ended: Some(Box::pin(submitted.wait_all())), engine, access, id }
    }
}

impl Future for AwaitedCall {
    type Output = CallEnd;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallEnd> {
        // A future is not polled again after its end.
        let Some(ended) = &mut self.ended else { return Poll::Pending };
        let polled = ended.as_mut().poll(context);
        if polled.is_ready() {
            self.ended = None;
        }
        polled
    }
}

impl Drop for AwaitedCall {
    fn drop(&mut self) {
        let Some(mut ended) = self.ended.take() else { return };
        let (engine, access, id) = (self.engine.clone(), self.access.clone(), self.id);
        // Without a runtime the process is ending.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::select! {
                biased;
                _ = &mut ended => {}
                () = cancel_call(&engine, access.tenant(), id) => drop(ended.await),
            }
        });
    }
}
