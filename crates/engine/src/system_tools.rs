//! Tools that read or change what the service stores, one per file. Those of [`NAMES`] act on the session of their call, and are
//! available only in sessions that name them.

use std::sync::Arc;

use toolpost_core::domain::{Clock, Failure, Session, Tenant, ToolOutput};
use toolpost_store::store::{Store, StoreError, Stores};
use toolpost_tool::executor::{BoxFuture, Executor, Invocation, SystemTool, ToolRole};
use toolpost_tool::tool::{BuiltinTool, ToolError};

pub mod attempt_completion;
pub mod new_task;
pub mod read_result;
pub mod reset_equipped_tools;

pub use attempt_completion::AttemptCompletion;
pub use new_task::NewTask;
pub use read_result::ReadResult;
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
    let (stores, clock) = (stores.clone(), clock.clone());
    let completion = AttemptCompletion { stores: stores.clone(), clock: clock.clone() };
    let groups = ResetEquippedTools { stores: stores.clone(), manageable };
    let tools = [
        (BuiltinTool::new(completion), SystemTool::AttemptCompletion),
        (NewTask { stores, clock }.into_tool(), SystemTool::NewTask),
        (BuiltinTool::new(groups), SystemTool::ResetEquippedTools),
    ];
    let with_role = |(tool, system): (BuiltinTool, SystemTool)| {
        let executor = Arc::new(SystemExecutor { executor: tool.executor, system });
        BuiltinTool { executor, ..tool }
    };
    tools.map(with_role).into()
}

/// An executor that identifies its system tool by its role.
struct SystemExecutor {
    executor: Arc<dyn Executor>,
    system: SystemTool,
}

impl Executor for SystemExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        self.executor.execute(invocation)
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Session(self.system))
    }
}

/// Returns the session of a call.
async fn session_of(store: &Store, id: Option<&str>) -> Result<Session, ToolError> {
    let id = id.ok_or("it can be called only in a session; set `session` on the request")?;
    let found = store.session(id).await.map_err(store_error)?;
    found.ok_or_else(|| "the session was deleted".into())
}

/// Logs a database error and returns an error for the model without its details.
fn store_error(error: StoreError) -> ToolError {
    if let StoreError::TooMany { .. } = error {
        return ToolError::new(format!("{error}, and no more can be made"));
    }
    tracing::error!(%error, "a session cannot be read or changed");
    ToolError::new("the database is unavailable; retry later")
}
