//! The tower stack of one tool: the layers between a call and its executor, built once when the tool is registered.
//!
//! A call passes `timeout → executor`. Layers of the library's users are outermost.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder};

use crate::domain::{Failure, ToolDefinition, ToolOutput};
use crate::executor::{BoxFuture, Executor, ExternalExecutor, Invocation};

pub mod timeout;

/// The stack of one tool.
pub type Stack = BoxCloneSyncService<Invocation, ToolOutput, Failure>;

/// A function that wraps the stack of every tool in a custom layer.
pub type StackLayer = Arc<dyn Fn(&ToolDefinition, Stack) -> Stack + Send + Sync>;

/// Builds the stack of one tool.
#[must_use]
pub fn stack(definition: &ToolDefinition, executor: Arc<dyn Executor>, wraps: &[StackLayer]) -> Stack {
    let own = ServiceBuilder::new().layer(timeout::TimeoutLayer).service(ExecutorService(executor));
    wraps.iter().fold(BoxCloneSyncService::new(own), |stack, wrap| wrap(definition, stack))
}

/// The innermost service: the executor itself.
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
        // A resumed call with external work only awaits its result.
        if invocation.awaits_external {
            return ExternalExecutor.execute(invocation);
        }
        self.0.execute(invocation)
    }
}
