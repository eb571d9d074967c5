//! What stands between a call and its executor: the tower stack of one tool, built once when it is registered.
//!
//! Read from the top: a call passes `timeout → executor`. Layers of the library's users stand outermost.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder};

use crate::domain::{Failure, ToolDefinition, ToolOutput};
use crate::executor::{BoxFuture, Executor, ExternalExecutor, Invocation};

pub mod timeout;

/// One tool, ready to be called.
pub type Stack = BoxCloneSyncService<Invocation, ToolOutput, Failure>;

/// Wraps every tool's stack in a layer of one's own.
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
        if invocation.awaits_external {
            return ExternalExecutor.execute(invocation);
        }
        self.0.execute(invocation)
    }
}
