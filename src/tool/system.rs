//! The system tools, one file each: they act on the session of their call, and are there only in sessions that name them.

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

/// The heading that they are listed under.
const CATEGORY: &str = "session";

/// Their names.
pub const NAMES: [&str; 3] = [attempt_completion::NAME, new_task::NAME, reset_equipped_tools::NAME];

/// Names the groups of a tenant that a model may switch.
pub type Manageable = Arc<dyn Fn(&Tenant) -> Vec<String> + Send + Sync>;

/// All of them, in the order of their names.
#[must_use]
pub fn tools(stores: &Stores, clock: &Clock, manageable: Manageable) -> Vec<BuiltinTool> {
    vec![
        marked(BuiltinTool::new(AttemptCompletion::new(stores.clone(), clock.clone())), SystemTool::AttemptCompletion),
        marked(NewTask::tool(stores.clone(), clock.clone()), SystemTool::NewTask),
        marked(BuiltinTool::new(ResetEquippedTools::new(stores.clone(), manageable)), SystemTool::ResetEquippedTools),
    ]
}

/// A tool that says of itself what it is.
struct SystemExecutor {
    executor: Arc<dyn Executor>,
    system: SystemTool,
}

fn marked(tool: BuiltinTool, system: SystemTool) -> BuiltinTool {
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

/// What a call outside of any session is told.
const NO_SESSION: &str = "it works in a session only, and this call names none";

/// The session of a run.
async fn session_of(stores: &Stores, run: &Run) -> Result<Session, ToolError> {
    let Some(id) = run.session() else { return Err(ToolError::new(NO_SESSION)) };
    let found = stores.of(run.tenant()).session(id).await.map_err(|error| away(&error))?;
    found.ok_or_else(|| ToolError::new("the session was deleted"))
}

/// The database fails: nothing of that is for a model.
fn away(error: &StoreError) -> ToolError {
    if let StoreError::TooMany { .. } = error {
        return ToolError::new(format!("{error}, and no more can be made"));
    }
    tracing::error!(%error, "a session cannot be read or changed");
    ToolError::new("the database is away; try again")
}
