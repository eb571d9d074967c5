//! `attempt_completion`: completes the task of the session.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{session_of, store_error};
use toolpost_core::domain::{Clock, Completion, SessionState};
use toolpost_store::store::Stores;
use toolpost_tool::tool::{DefinitionBuilder, Run, Tool, ToolError};

/// The name of the tool.
pub const NAME: &str = "attempt_completion";

/// The tool `attempt_completion`. The engine rejects it before the run if it is not the only call of its batch.
#[derive(Debug, Clone)]
pub struct AttemptCompletion {
    pub(super) stores: Stores,
    pub(super) clock: Clock,
}

/// Ends the task and presents its result. Call it only when everything is done and its outcome is known, and as the
/// only call of the message: next to other calls it is rejected and completes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletionArgs {
    /// The final result of the task. It must not end with a question.
    pub result: String,
}

impl Tool for AttemptCompletion {
    const NAME: &'static str = NAME;
    type Args = CompletionArgs;
    type Output = String;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Complete the task")
            .category(super::CATEGORY)
            .example(json!({"result": "The report is written to report.md."}), "The report is written to report.md.")
            .non_destructive()
            .closed_world()
    }

    async fn call(&self, CompletionArgs { result }: CompletionArgs, run: Run) -> Result<String, ToolError> {
        let store = self.stores.for_tenant(run.tenant());
        let session = session_of(&store, run.session()).await?;
        let completion = Completion { success: true, summary: result.clone(), error: None };
        let ended = store.end_session(&session.id, SessionState::Completed, Some(&completion), self.clock.now());
        match ended.await.map_err(store_error)? {
            true => Ok(result),
            false => Err("the session has already ended".into()),
        }
    }
}
