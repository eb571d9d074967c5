//! `new_task`: creates a session for a task and waits for its completion.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{session_of, store_error};
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::{Clock, Failure, Session, Task, ToolOutput};
use toolpost_store::store::Stores;
use toolpost_tool::executor::{BoxFuture, Executor, Invocation};
use toolpost_tool::tool::{BuiltinTool, DefinitionBuilder, ToolError, object};

/// The name of the tool.
pub const NAME: &str = "new_task";

/// The timeout: the maximum for any call, because tasks may run long.
const TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// The tool `new_task`. The id of the child session is the id of the call, so a repeated run creates no second session.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub(super) stores: Stores,
    pub(super) clock: Clock,
}

/// Delegates a task to another agent, which works on it independently. The result arrives when the task is completed;
/// continue with other work in the meantime, or wait for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskArgs {
    /// The agent that should do the task.
    #[schemars(length(min = 1, max = 512))]
    pub agent_name: String,
    /// A short name for the task.
    #[schemars(length(min = 1, max = 512))]
    pub task_name: String,
    /// The task, with everything that the agent needs to know: it sees nothing of this conversation.
    pub input: String,
}

impl NewTask {
    pub(super) fn into_tool(self) -> BuiltinTool {
        let arguments = json!({"agent_name": "researcher", "task_name": "Prices", "input": "Find the prices of …"});
        let definition = DefinitionBuilder::of::<TaskArgs>(NAME)
            .title("New task")
            .category(super::CATEGORY)
            .example(arguments, "The prices are …")
            .non_destructive()
            .concurrency_safe(true)
            .asynchronous()
            .timeout_ms(TIMEOUT_MS)
            .into_definition();
        BuiltinTool { definition, executor: Arc::new(self), validate: None }
    }

    /// Creates the session, unless an earlier run of this call created it.
    async fn create_session(&self, invocation: &Invocation) -> Result<(), ToolError> {
        let TaskArgs { agent_name, task_name, input } = TaskArgs::deserialize(&*invocation.arguments)?;
        let store = self.stores.for_tenant(&invocation.tenant);
        let parent = session_of(&store, invocation.session.as_deref()).await?;
        let child = Session {
            parent: Some(parent.id.to_string()),
            parent_call: Some(invocation.id),
            context: parent.context,
            groups: parent.groups,
            limits: parent.limits,
            tools: parent.tools,
            callback_url: parent.callback_url,
            task: Some(Task { agent_name, task_name, input }),
            ..Session::new(invocation.id.to_string().into(), self.clock.now())
        };
        if store.make_session(&child).await.map_err(store_error)? {
            return Ok(());
        }
        let before = store.session(&child.id).await.map_err(store_error)?;
        match before.is_some_and(|before| before.parent_call == child.parent_call) {
            true => Ok(()),
            false => Err("the session of the task cannot be created: its id is already in use".into()),
        }
    }
}

impl Executor for NewTask {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let task = self.clone();
        Box::pin(async move {
            if !invocation.awaits_external {
                task.create_session(&invocation).await.map_err(|error| error.into_failure(&invocation.name))?;
            }
            // From now on a result of the task is accepted.
            invocation.result_slot.open();
            invocation.emitter.status(StatusUpdate {
                phase: Some(Phase::External),
                metadata: object([("session", invocation.id.to_string())]),
                ..StatusUpdate::default()
            });
            Ok(invocation.result_slot.result().await)
        })
    }
}
