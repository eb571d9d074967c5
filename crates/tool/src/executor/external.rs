//! Tools whose work is done outside of the service, by the caller, a person or a worker program.

use super::{BoxFuture, Executor, Invocation};
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::{Failure, ToolOutput};

/// An executor that waits for a posted result.
#[derive(Debug, Clone, Copy)]
pub struct ExternalExecutor;

impl Executor for ExternalExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        Box::pin(async move {
            invocation.result_slot.open();
            invocation.emitter.status(StatusUpdate { phase: Some(Phase::External), ..StatusUpdate::default() });
            let result = invocation.result_slot.result_or_loss().await;
            result.ok_or_else(|| Failure::outcome_unknown(&invocation.name).lost_by_worker())
        })
    }
}
