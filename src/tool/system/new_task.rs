//! `new_task`: creates a session for a task and waits for its completion.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{NO_SESSION, store_error};
use crate::domain::call::{Phase, StatusUpdate};
use crate::domain::{Clock, Failure, Session, Task, ToolOutput};
use crate::executor::{BoxFuture, Executor, Invocation};
use crate::store::Stores;
use crate::tool::{BuiltinTool, DefinitionBuilder, object};

/// The name of the tool.
pub const NAME: &str = "new_task";

/// The timeout: the maximum for any call, because tasks may run long.
const TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// The tool `new_task`. The id of the child session is the id of the call, so a repeated run creates no second session.
#[derive(Debug, Clone)]
pub struct NewTask {
    stores: Stores,
    clock: Clock,
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
    pub(super) fn tool(stores: Stores, clock: Clock) -> BuiltinTool {
        let arguments = json!({"agent_name": "researcher", "task_name": "Prices", "input": "Find the prices of …"});
        let about = DefinitionBuilder::of::<TaskArgs>(NAME)
            .title("New task")
            .category(super::CATEGORY)
            .example(arguments, "The prices are …")
            .harmless()
            .concurrency_safe(true)
            .asynchronous()
            .timeout_ms(TIMEOUT_MS);
        let executor = Arc::new(Self { stores, clock });
        BuiltinTool { definition: about.into_definition(), executor, validate: None }
    }

    /// Creates the session, unless an earlier run of this call created it.
    async fn create_session(&self, invocation: &Invocation) -> Result<(), Failure> {
        let failed = |message: String| Failure::execution(&invocation.name, message);
        let store = &self.stores.of(&invocation.tenant);
        let read = |id: Arc<str>| async move {
            store.session(&id).await.map_err(|error| failed(store_error(&error).message().to_owned()))
        };
        let args: TaskArgs =
            serde_json::from_value((*invocation.arguments).clone()).map_err(|error| failed(error.to_string()))?;
        let id = invocation.session.clone().ok_or_else(|| failed(NO_SESSION.to_owned()))?;
        let parent = read(id).await?.ok_or_else(|| failed("the session was deleted".to_owned()))?;
        let TaskArgs { agent_name, task_name, input } = args;
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
        if store.make_session(&child).await.map_err(|error| failed(store_error(&error).message().to_owned()))? {
            return Ok(());
        }
        let before = read(child.id.clone()).await?;
        match before.is_some_and(|before| before.parent_call == child.parent_call) {
            true => Ok(()),
            false => Err(failed("the session of the task cannot be created: its id is already in use".to_owned())),
        }
    }
}

impl Executor for NewTask {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let task = self.clone();
        Box::pin(async move {
            if !invocation.awaits_external {
                task.create_session(&invocation).await?;
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
