//! `edit`: replaces one occurrence of a text in a file.

use std::io::Read as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Workspace;
use super::file::io_fault;
use super::path::WorkspacePath;
use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};
use toolpost_core::domain::Outcome;
use toolpost_core::domain::truncation::grouped;

mod locate;
mod similar;

use locate::{EditedText, MatchError, replace_unique};

/// Maximum size of a file to edit, in bytes.
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of line numbers in a message about several occurrences.
const MAX_SHOWN_LINES: usize = 10;

/// The tool `edit`.
#[derive(Debug, Clone)]
pub struct Edit(pub Workspace);

/// Replaces one piece of text in a file of the workspace. `old_text` must occur in the file exactly once, including its
/// indentation; include enough surrounding lines to make it unique.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// The file, relative to the workspace, like "src/main.rs".
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// The current text, exactly as `read` shows it.
    #[schemars(length(min = 1))]
    pub old_text: String,
    /// The new text; empty to delete the old text.
    pub new_text: String,
}

impl Tool for Edit {
    const NAME: &'static str = "edit";
    type Args = EditArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Edit a file")
            .category(super::CATEGORY)
            .tag("file")
            .example(
                json!({"path": "src/main.rs", "old_text": "println!(\"Helo\")", "new_text": "println!(\"Hello\")"}),
                "Edited src/main.rs: line 2",
            )
            .closed_world()
    }

    fn validate(&self, args: &EditArgs) -> Result<(), Vec<InvalidArgument>> {
        if args.old_text == args.new_text {
            return Err(vec![InvalidArgument::at("/new_text", "is the same as old_text, so nothing would change")]);
        }
        Ok(())
    }

    async fn call(&self, args: EditArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let path = workspace.resolve(&args.path)?;
            let _alone = workspace.change();
            let text = text(&workspace, &path)?;
            let EditedText { text, line, lines_before, lines_after } =
                replace_unique(&text, &args.old_text, &args.new_text)
                    .map_err(|not_one| match_error(&path, &text, &args.old_text, not_one))?;
            workspace.target(&path)?.replace(text.as_bytes(), run.id().as_u128())?;
            let last = line + lines_after.max(1) - 1;
            let where_ = if last == line { format!("line {line}") } else { format!("lines {line}-{last}") };
            let details = object([
                ("path", json!(path.to_string())),
                ("line", json!(line)),
                ("lines_before", json!(lines_before)),
                ("lines_after", json!(lines_after)),
                ("bytes", json!(text.len())),
            ]);
            Ok(Outcome { details, ..Outcome::text(format!("Edited {path}: {where_}")) })
        })
        .await
    }
}

/// Reads the full text of a file.
fn text(workspace: &Workspace, path: &WorkspacePath) -> Result<String, ToolError> {
    let opened = workspace.open_file(path)?;
    let mut bytes = Vec::new();
    opened.file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io_fault(path))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(format!("\"{path}\" is too large to be edited: {} bytes", grouped(opened.bytes)).into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("\"{path}\" is not UTF-8 (line {line}), so its text cannot be edited").into()
    })
}

fn match_error(path: &WorkspacePath, text: &str, old: &str, not_one: MatchError) -> ToolError {
    let MatchError::Ambiguous { count, lines } = not_one else {
        return format!("old_text was not found in \"{path}\"{}", similar::nearest(text, old)).into();
    };
    let shown: Vec<String> = lines.iter().take(MAX_SHOWN_LINES).map(ToString::to_string).collect();
    let more = if lines.len() > MAX_SHOWN_LINES { ", …" } else { "" };
    let message = format!(
        "old_text occurs {count} times in \"{path}\" (lines {}{more}) and must occur exactly once: include more of the \
         surrounding lines",
        shown.join(", ")
    );
    message.into()
}

#[cfg(test)]
mod tests;
