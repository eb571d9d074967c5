//! `echo`: returns its arguments.

use std::sync::Arc;

use serde_json::json;

use crate::executor::{BoxFuture, Executor, Invocation};
use crate::tool::{BuiltinTool, DefinitionBuilder};
use toolpost_core::domain::{Failure, ToolOutput};

/// The tool `echo`: its arguments become its `structured` data. It never fails and copies nothing.
#[derive(Debug, Clone, Copy)]
pub struct Echo;

impl Echo {
    /// Creates the tool. It implements `Executor` directly, because its arguments have no type.
    #[must_use]
    pub fn tool() -> BuiltinTool {
        let about = DefinitionBuilder::with_schema("echo", json!({ "type": "object" }))
            .title("Echo")
            .description("Returns its arguments unchanged. Accepts any object.")
            .category(super::CATEGORY)
            .example(json!({"text": "Hello"}), r#"{"text":"Hello"}"#)
            .read_only()
            .closed_world();
        BuiltinTool { definition: about.into_definition(), executor: Arc::new(Self), validate: None }
    }
}

impl Executor for Echo {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        Box::pin(std::future::ready(Ok(ToolOutput::Data(invocation.arguments))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arguments_are_data_even_if_they_look_like_an_error() {
        for arguments in [json!({}), json!({"success": false, "error": "x"}), json!({"output": "\u{0}🦀"})] {
            let answer = Echo::tool().invoke(arguments.clone()).await;
            assert_eq!(answer, Ok(ToolOutput::Data(Arc::new(arguments))));
        }
    }
}
