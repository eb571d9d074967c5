//! System tools, one per file. They act on the session of their call and are available only in sessions that name them.

use std::sync::Arc;

use super::{BuiltinTool, Run, ToolError};
use crate::domain::{Clock, Failure, Session, Tenant, ToolOutput};
use crate::executor::{BoxFuture, Executor, Invocation, SystemTool, ToolRole};
use crate::store::{StoreError, Stores};

pub mod attempt_completion;
pub mod new_task;
pub mod reset_equipped_tools;

pub use attempt_completion::AttemptCompletion;
pub use new_task::NewTask;
pub use reset_equipped_tools::ResetEquippedTools;

/// The category of the system tools.
const CATEGORY: &str = "session";

/// The names of the system tools.
pub const NAMES: [&str; 3] = [attempt_completion::NAME, new_task::NAME, reset_equipped_tools::NAME];

/// A function that returns the groups of a tenant that models may switch.
pub type Manageable = Arc<dyn Fn(&Tenant) -> Vec<String> + Send + Sync>;

/// Creates the system tools, sorted by name.
#[must_use]
pub fn tools(stores: &Stores, clock: &Clock, manageable: Manageable) -> Vec<BuiltinTool> {
    vec![
        with_role(
            BuiltinTool::new(AttemptCompletion::new(stores.clone(), clock.clone())),
            SystemTool::AttemptCompletion,
        ),
        with_role(NewTask::tool(stores.clone(), clock.clone()), SystemTool::NewTask),
        with_role(
            BuiltinTool::new(ResetEquippedTools::new(stores.clone(), manageable)),
            SystemTool::ResetEquippedTools,
        ),
    ]
}

/// An executor that identifies its system tool by its role.
struct SystemExecutor {
    executor: Arc<dyn Executor>,
    system: SystemTool,
}

fn with_role(tool: BuiltinTool, system: SystemTool) -> BuiltinTool {
    BuiltinTool { executor: Arc::new(SystemExecutor { executor: tool.executor, system }), ..tool }
}

impl Executor for SystemExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        self.executor.execute(invocation)
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Session(self.system))
    }
}

/// Error message for a call outside of a session.
const NO_SESSION: &str = "it can be called only in a session; set `session` on the request";

/// Returns the session of a run.
async fn session_of(stores: &Stores, run: &Run) -> Result<Session, ToolError> {
    let Some(id) = run.session() else { return Err(ToolError::new(NO_SESSION)) };
    let found = stores.of(run.tenant()).session(id).await.map_err(|error| store_error(&error))?;
    found.ok_or_else(|| ToolError::new("the session was deleted"))
}

/// Logs a database error and returns an error for the model without its details.
fn store_error(error: &StoreError) -> ToolError {
    if let StoreError::TooMany { .. } = error {
        return ToolError::new(format!("{error}, and no more can be made"));
    }
    tracing::error!(%error, "a session cannot be read or changed");
    ToolError::new("the database is unavailable; retry later")
}
