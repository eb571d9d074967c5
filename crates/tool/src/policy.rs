//! The tower stack of one tool, built once when the tool is registered: the executor within its timeouts, and around it
//! the layers of the library's users.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::executor::{BoxFuture, Executor, ExternalExecutor, Invocation};
use toolpost_core::domain::{Failure, ToolDefinition, ToolOutput};

pub mod timeout;

/// The stack of one tool.
pub type Stack = BoxCloneSyncService<Invocation, ToolOutput, Failure>;

/// A function that wraps the stack of every tool in a custom layer.
pub type StackLayer = Arc<dyn Fn(&ToolDefinition, Stack) -> Stack + Send + Sync>;

/// Builds the stack of one tool.
#[must_use]
pub fn stack(definition: &ToolDefinition, executor: Arc<dyn Executor>, layers: &[StackLayer]) -> Stack {
    let own = BoxCloneSyncService::new(ExecutorService(executor));
    layers.iter().fold(own, |stack, layer| layer(definition, stack))
}

/// The innermost service: the executor within its timeouts.
#[derive(Clone)]
struct ExecutorService(Arc<dyn Executor>);

impl Service<Invocation> for ExecutorService {
    type Response = ToolOutput;
    type Error = Failure;
    type Future = BoxFuture<Result<ToolOutput, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, invocation: Invocation) -> Self::Future {
        timeout::run_within(invocation, |invocation| match invocation.awaits_external {
            // A resumed call with external work only awaits its result.
            true => ExternalExecutor.execute(invocation),
            false => self.0.execute(invocation),
        })
    }
}
