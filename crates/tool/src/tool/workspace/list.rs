//! `list`: lists a folder.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::open::missing;
use super::walk::{FileKind, WalkEnd, WalkEntry, WalkOptions, walk};
use super::{Workspace, here};
use crate::tool::{DefinitionBuilder, Run, Tool, ToolError, object};
use toolpost_core::domain::Outcome;
use toolpost_core::domain::truncation::grouped;

/// Maximum number of listed entries.
const MAX_ENTRIES: usize = 1000;

/// The tool `list`.
#[derive(Debug, Clone)]
pub struct List(pub Workspace);

/// Lists a folder of the workspace: one path per line, folders with a trailing slash, files with their size. Hidden
/// files and files that `.gitignore` excludes are skipped unless `all` is true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArgs {
    /// The folder, relative to the workspace, like "src".
    #[serde(default = "here")]
    #[schemars(length(max = 4096))]
    pub path: String,
    /// How many levels to show; 1 is the folder itself.
    #[serde(default = "crate::tool::one")]
    #[schemars(range(min = 1, max = 64))]
    pub depth: usize,
    /// Show hidden and ignored files as well.
    #[serde(default)]
    pub all: bool,
}

impl Tool for List {
    const NAME: &'static str = "list";
    type Args = ListArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("List a folder")
            .category(super::CATEGORY)
            .tag("file")
            .example(json!({}), "README.md (1,204 bytes)\nsrc/")
            .example(
                json!({"path": "src", "depth": 2}),
                "src/lib.rs (310 bytes)\nsrc/store/\nsrc/store/db.rs (96 bytes)",
            )
            .read_only()
            .closed_world()
    }

    async fn call(&self, args: ListArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let path = workspace.resolve(&args.path)?;
            workspace.open_folder(&path)?;
            let mut entries = Vec::new();
            let options = WalkOptions { depth: args.depth, all: args.all, ..WalkOptions::default() };
            let end = walk(&workspace, &path, &options, |seen| {
                if entries.len() == MAX_ENTRIES || run.is_cancelled() {
                    return ControlFlow::Break(());
                }
                entries.push(Entry::of(&seen));
                ControlFlow::Continue(())
            });
            let is_complete = end.map_err(|error| missing(&workspace, &path, &error))? == WalkEnd::Complete;
            let mut lines: Vec<String> = entries.iter().map(Entry::line).collect();
            if lines.is_empty() {
                let folder = if path.is_root() { "the workspace" } else { "the folder" };
                let hint = if args.all { "" } else { " (hidden and ignored files are shown with \"all\": true)" };
                lines.push(format!("[{folder} is empty{hint}]"));
            }
            if !is_complete {
                let shown = grouped(entries.len());
                lines.push(format!("[only the first {shown} entries are shown: list a subfolder, or use search]"));
            }
            let details = object([
                ("path", json!(path.to_string())),
                ("entries", json!(entries)),
                ("complete", json!(is_complete)),
            ]);
            Ok(Outcome { details, ..Outcome::text(lines.join("\n")) })
        })
        .await
    }
}

/// A line of the list.
#[derive(Serialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: FileKind,
    bytes: Option<usize>,
    /// Target of a symbolic link.
    target: Option<String>,
}

impl Entry {
    fn of(seen: &WalkEntry<'_>) -> Self {
        let (mut bytes, mut target) = (None, None);
        match seen.kind {
            FileKind::File => {
                let metadata = seen.dir.symlink_metadata(seen.name).ok();
                bytes = metadata.and_then(|metadata| usize::try_from(metadata.len()).ok());
            }
            FileKind::Link => {
                let path = seen.dir.read_link_contents(seen.name).ok();
                target = path.map(|path| path.to_string_lossy().escape_debug().to_string());
            }
            FileKind::Folder | FileKind::Other => {}
        }
        Self { path: seen.path.to_string(), kind: seen.kind, bytes, target }
    }

    fn line(&self) -> String {
        let Self { path, kind, bytes, target } = self;
        match (kind, bytes, target) {
            (FileKind::Folder, ..) => format!("{path}/"),
            (FileKind::File, Some(bytes), _) => {
                let word = if *bytes == 1 { "byte" } else { "bytes" };
                format!("{path} ({} {word})", grouped(*bytes))
            }
            (FileKind::Link, _, Some(target)) => format!("{path} -> {target}"),
            (FileKind::Other, ..) => format!("{path} (a pipe, a socket or a device)"),
            _ => path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;
    use crate::tool::BuiltinTool;
    use toolpost_core::domain::ToolOutput;

    async fn list(folder: &std::path::Path, arguments: Value) -> String {
        match BuiltinTool::new(List(Workspace::open(folder).unwrap())).invoke(arguments).await {
            Ok(ToolOutput::Outcome(outcome)) => outcome.output,
            Ok(other) => panic!("{other:?}"),
            Err(failure) => failure.message,
        }
    }

    #[tokio::test]
    async fn list_shows_the_kind_of_each_entry() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), "x".repeat(1234)).unwrap();
        fs::write(folder.path().join("ünïcode 文.md"), "x").unwrap();
        fs::write(folder.path().join("a\nb"), "").unwrap();
        fs::write(folder.path().join(".env"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
        let expected = "a\\nb (0 bytes)\nout -> /etc/passwd\nsrc/\nünïcode 文.md (1 byte)";
        assert_eq!(list(folder.path(), json!({})).await, expected);
        assert_eq!(list(folder.path(), json!({"path": "src"})).await, "src/deep/\nsrc/lib.rs (1,234 bytes)");
        assert!(list(folder.path(), json!({"all": true})).await.starts_with(".env (0 bytes)\n"));
        assert_eq!(list(folder.path(), json!({"path": "scr"})).await, "\"scr\" was not found; did you mean \"src\"?");
        let file = list(folder.path(), json!({"path": "src/lib.rs"})).await;
        assert_eq!(file, "\"src/lib.rs\" is a file, not a folder");
        let empty = list(folder.path(), json!({"path": "src/deep"})).await;
        assert_eq!(empty, "[the folder is empty (hidden and ignored files are shown with \"all\": true)]");
    }

    #[tokio::test]
    async fn long_list_reports_its_truncation() {
        let folder = tempfile::tempdir().unwrap();
        (0..=MAX_ENTRIES).for_each(|number| fs::write(folder.path().join(format!("{number:05}")), "").unwrap());
        let listed = list(folder.path(), json!({})).await;
        assert_eq!(listed.lines().count(), MAX_ENTRIES + 1);
        assert!(listed.starts_with("00000 (0 bytes)\n") && listed.contains("[only the first 1,000 entries are shown"));
    }
}
