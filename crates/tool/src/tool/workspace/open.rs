//! Opening files and folders of the workspace, with errors for a model: how far a path that does not exist is correct,
//! and which path was probably meant.

use std::io;
use std::ops::ControlFlow;

use cap_std::fs::Dir;

use super::Workspace;
use super::file::{self, OpenError, OpenFile};
use super::path::{WorkspacePath, fault};
use super::walk::{FileKind, WalkOptions, walk};
use crate::tool::ToolError;
use toolpost_core::schema::nearest;

/// Maximum number of names of a folder that are compared.
const MAX_NAMES: usize = 10_000;
/// Maximum number of entries that are searched for the same name in another folder.
const MAX_ENTRIES: usize = 5_000;
/// Maximum number of names of a folder in a message.
const MAX_SHOWN_NAMES: usize = 10;

impl Workspace {
    /// Opens a regular file.
    ///
    /// # Errors
    /// Returns an error for the model: what the path is instead, or which similar paths exist.
    pub(super) fn open_file(&self, path: &WorkspacePath) -> Result<OpenFile, ToolError> {
        file::open(&self.root, path.path()).map_err(|not| match not {
            OpenError::Folder => file::folder(path),
            OpenError::Special => file::special(path),
            OpenError::Io(error) => missing(self, path, &error),
        })
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// Returns an error for the model, like [`Workspace::open_file`].
    pub(super) fn open_folder(&self, path: &WorkspacePath) -> Result<Dir, ToolError> {
        self.root.open_dir(path.path()).map_err(|error| match self.root.metadata(path.path()) {
            Ok(metadata) if !metadata.is_dir() => ToolError::new(format!("\"{path}\" is a file, not a folder")),
            _ => missing(self, path, &error),
        })
    }
}

/// Explains why a path cannot be opened. If it does not exist, the message has suggestions.
pub(super) fn missing(workspace: &Workspace, path: &WorkspacePath, error: &io::Error) -> ToolError {
    if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        return fault(path, error);
    }
    if workspace.root.symlink_metadata(path.path()).is_ok_and(|metadata| metadata.is_symlink()) {
        return ToolError::new(format!("\"{path}\" is a symbolic link whose target does not exist"));
    }
    // Finds the deepest existing folder of the path, and the name that it lacks.
    let way = path.ancestors();
    let folders = way.iter().map_while(|path| Some((path, workspace.root.open_dir(path.path()).ok()?)));
    let Some((number, (folder, dir))) = folders.enumerate().last() else { return fault(path, error) };
    let Some(absent) = way.get(number + 1) else { return fault(path, error) };
    if workspace.root.metadata(absent.path()).is_ok() {
        return ToolError::new(format!("\"{absent}\" is a file, not a folder, so \"{path}\" does not exist"));
    }
    let kind = if absent == path { "" } else { "folder " };
    let hint = hint(workspace, path, absent, folder, &dir);
    ToolError::new(format!("{kind}\"{absent}\" was not found{hint}"))
}

fn hint(
    workspace: &Workspace,
    path: &WorkspacePath,
    absent: &WorkspacePath,
    folder: &WorkspacePath,
    dir: &Dir,
) -> String {
    let names = names(dir);
    let wanted = absent.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(name) = nearest(&wanted, names.iter().map(String::as_str)) {
        return format!("; did you mean \"{}\"?", folder.join(name.as_ref()));
    }
    if let Some(elsewhere) = find_elsewhere(workspace, path) {
        return format!("; did you mean \"{elsewhere}\"?");
    }
    let title = if folder.is_root() { "the workspace".to_owned() } else { format!("the folder \"{folder}\"") };
    if names.is_empty() {
        return format!("; {title} is empty");
    }
    let shown: Vec<String> = names.iter().take(MAX_SHOWN_NAMES).map(|name| name.escape_debug().to_string()).collect();
    let more = match names.len().saturating_sub(MAX_SHOWN_NAMES) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!("; {title} has {}{more}", shown.join(", "))
}

/// Returns the names in a folder, sorted.
fn names(dir: &Dir) -> Vec<String> {
    let entries = dir.entries().into_iter().flatten().flatten().take(MAX_NAMES);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Finds a file of the same name in another folder.
fn find_elsewhere(workspace: &Workspace, path: &WorkspacePath) -> Option<WorkspacePath> {
    let wanted = path.name()?.to_str()?.to_lowercase();
    let mut found = None;
    let scope = WalkOptions { max_entries: MAX_ENTRIES, ..WalkOptions::default() };
    let end = walk(workspace, &WorkspacePath::default(), &scope, |seen| {
        if seen.kind == FileKind::File && seen.name.to_str().is_some_and(|name| name.to_lowercase() == wanted) {
            found = Some(seen.path.clone());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    end.ok().and(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn missing_message(path: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        for name in ["src/main.rs", "src/lib.rs", "src/deep/engine.rs", "README.md"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let path = workspace.resolve(path).unwrap();
        workspace.open_file(&path).unwrap_err().message().to_owned()
    }

    #[test]
    fn missing_paths_have_suggestions() {
        for (path, message) in [
            ("src/mian.rs", "\"src/mian.rs\" was not found; did you mean \"src/main.rs\"?"),
            ("readme.md", "\"readme.md\" was not found; did you mean \"README.md\"?"),
            ("scr/main.rs", "folder \"scr\" was not found; did you mean \"src\"?"),
            ("engine.rs", "\"engine.rs\" was not found; did you mean \"src/deep/engine.rs\"?"),
            ("src/zzzzzz", "\"src/zzzzzz\" was not found; the folder \"src\" has deep, lib.rs, main.rs"),
            ("empty/zzzzzz", "\"empty/zzzzzz\" was not found; the folder \"empty\" is empty"),
            ("src/main.rs/x", "\"src/main.rs\" is a file, not a folder, so \"src/main.rs/x\" does not exist"),
            ("dangling", "\"dangling\" is a symbolic link whose target does not exist"),
        ] {
            assert_eq!(missing_message(path), message, "{path}");
        }
    }
}
