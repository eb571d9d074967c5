//! `write`: writes a file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Workspace;
use crate::tool::{DefinitionBuilder, Run, Tool, ToolError, object};
use toolpost_core::domain::Outcome;
use toolpost_core::domain::truncation::{grouped, lines};

/// The tool `write`.
#[derive(Debug, Clone)]
pub struct Write(pub Workspace);

/// Writes a file of the workspace: creates it with any missing parent folders, or replaces an existing file. To change
/// a part of a file, use `edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// The file, relative to the workspace, like "src/main.rs".
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// The full content of the file.
    pub content: String,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    type Args = WriteArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Write a file")
            .category(super::CATEGORY)
            .tag("file")
            .example(
                json!({"path": "notes/today.md", "content": "# Today\n"}),
                "Wrote notes/today.md, new: 1 line, 8 bytes",
            )
            .idempotent()
            .closed_world()
    }

    async fn call(&self, args: WriteArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let path = workspace.resolve(&args.path)?;
            let _alone = workspace.change();
            let target = workspace.target(&path)?;
            target.replace(args.content.as_bytes(), run.id().as_u128())?;
            let (count, bytes) = (lines(&args.content), args.content.len());
            let (new, word) = (if target.is_new() { ", new" } else { "" }, if count == 1 { "line" } else { "lines" });
            let text = format!("Wrote {path}{new}: {} {word}, {} bytes", grouped(count), grouped(bytes));
            let details = object([
                ("path", json!(path.to_string())),
                ("created", json!(target.is_new())),
                ("bytes", json!(bytes)),
                ("lines", json!(count)),
            ]);
            Ok(Outcome { details, ..Outcome::text(text) })
        })
        .await
    }
}
