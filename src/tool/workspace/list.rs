//! `list`: lists a folder.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Workspace;
use super::near;
use super::walk::{FileKind, MAX_DEPTH, WalkEnd, WalkEntry, WalkFlow, WalkOptions, walk};
use crate::domain::Outcome;
use crate::domain::truncation::grouped;
use crate::tool::{DefinitionBuilder, Run, Tool, ToolError, object};

/// Maximum number of listed entries.
const MAX_ENTRIES: usize = 1000;

/// The tool `list`.
#[derive(Debug, Clone)]
pub struct List(Workspace);

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
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub depth: u64,
    /// Show hidden and ignored files as well.
    #[serde(default)]
    pub all: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn one() -> u64 {
    1
}

impl List {
    /// Creates the tool for a workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self(workspace)
    }
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
            let place = workspace.resolve(&args.path)?;
            workspace.open_folder(&place)?;
            let (mut entries, mut is_full) = (Vec::new(), false);
            let depth = usize::try_from(args.depth).unwrap_or(MAX_DEPTH);
            let scope = WalkOptions { depth, all: args.all, ..WalkOptions::default() };
            let end = walk(&workspace, &place, &scope, &mut |seen| {
                is_full = entries.len() == MAX_ENTRIES;
                if is_full || run.is_cancelled() {
                    return WalkFlow::Stop;
                }
                entries.push(Entry::of(&seen));
                WalkFlow::Continue
            });
            let end = end.map_err(|error| near::missing(&workspace, &place, &error))?;
            let mut lines: Vec<String> = entries.iter().map(Entry::line).collect();
            if lines.is_empty() {
                let hint = if args.all { "" } else { " (hidden and ignored files are shown with \"all\": true)" };
                lines
                    .push(format!("[{} is empty{hint}]", if place.is_root() { "the workspace" } else { "the folder" }));
            }
            let is_whole = !is_full && end == WalkEnd::Complete;
            if !is_whole {
                lines.push(format!(
                    "[only the first {} entries are shown: list a subfolder, or use search]",
                    grouped(entries.len())
                ));
            }
            let details = object([
                ("path", json!(place.to_string())),
                ("entries", entries.iter().map(Entry::json).collect::<Value>()),
                ("complete", json!(is_whole)),
            ]);
            Ok(Outcome { details, ..Outcome::text(lines.join("\n")) })
        })
        .await
    }
}

/// A line of the list.
struct Entry {
    path: String,
    kind: FileKind,
    bytes: Option<u64>,
    /// Target of a symbolic link.
    target: Option<String>,
}

impl Entry {
    fn of(seen: &WalkEntry<'_>) -> Self {
        let bytes = match seen.kind {
            FileKind::File => seen.dir.symlink_metadata(seen.name).ok().map(|metadata| metadata.len()),
            _ => None,
        };
        let target = match seen.kind {
            FileKind::Link => seen.dir.read_link_contents(seen.name).ok(),
            _ => None,
        };
        let target = target.map(|target| target.to_string_lossy().escape_debug().to_string());
        Self { path: seen.place.to_string(), kind: seen.kind, bytes, target }
    }

    fn line(&self) -> String {
        let Self { path, kind, bytes, target } = self;
        match (kind, bytes, target) {
            (FileKind::Folder, ..) => format!("{path}/"),
            (FileKind::File, Some(bytes), _) => {
                let word = if *bytes == 1 { "byte" } else { "bytes" };
                format!("{path} ({} {word})", grouped(usize::try_from(*bytes).unwrap_or(usize::MAX)))
            }
            (FileKind::Link, _, Some(target)) => format!("{path} -> {target}"),
            (FileKind::Other, ..) => format!("{path} (a pipe, a socket or a device)"),
            _ => path.clone(),
        }
    }

    fn json(&self) -> Value {
        let kind = match self.kind {
            FileKind::Folder => "folder",
            FileKind::File => "file",
            FileKind::Link => "link",
            FileKind::Other => "other",
        };
        json!({"path": self.path, "type": kind, "bytes": self.bytes, "target": self.target})
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::domain::ToolOutput;
    use crate::tool::BuiltinTool;

    async fn list(folder: &std::path::Path, arguments: Value) -> String {
        match BuiltinTool::new(List::new(Workspace::open(folder).unwrap())).invoke(arguments).await {
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
