//! A bounded walk through a folder by descriptors, in a stable order, which never leaves the folder.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;

use cap_std::fs::Dir;
use serde::Serialize;

use super::Workspace;
use super::ignore_rules::IgnoreRules;
use super::path::WorkspacePath;

/// Maximum depth of the walk, counted from its start. It equals the maximum number of open descriptors.
const MAX_DEPTH: usize = 64;
/// Maximum number of names read per folder.
const MAX_NAMES: usize = 100_000;

/// Options of a walk.
#[derive(Debug, Clone)]
pub(super) struct WalkOptions {
    /// Maximum depth; 1 is the folder itself.
    pub depth: usize,
    /// Maximum number of visited entries.
    pub max_entries: usize,
    /// Includes hidden and ignored entries.
    pub all: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { depth: MAX_DEPTH, max_entries: 200_000, all: false }
    }
}

/// The kind of an entry. Symbolic links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileKind {
    Folder,
    File,
    Link,
    Other,
}

/// An entry that the walk visits.
pub(super) struct WalkEntry<'w> {
    /// The parent folder.
    pub dir: &'w Dir,
    pub name: &'w OsStr,
    pub path: &'w WorkspacePath,
    pub kind: FileKind,
}

/// The reason why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// All entries were visited.
    Complete,
    /// The visitor stopped the walk.
    Stopped,
    /// More entries exist than the walk visits.
    TooMany,
}

struct Frame {
    dir: Dir,
    path: WorkspacePath,
    rules: IgnoreRules,
    left: std::vec::IntoIter<(OsString, FileKind)>,
}

/// Walks down from a folder, visiting each folder before its contents, sorted by name.
///
/// # Errors
/// Returns an error if the first folder cannot be read. Other unreadable folders are skipped.
pub(super) fn walk(
    workspace: &Workspace,
    start: &WorkspacePath,
    scope: &WalkOptions,
    mut visit: impl FnMut(WalkEntry<'_>) -> ControlFlow<()>,
) -> io::Result<WalkEnd> {
    let mut rules = IgnoreRules::default();
    let mut end = WalkEnd::Complete;
    if !scope.all {
        for path in start.ancestors() {
            rules = rules.with_folder(&workspace.root.open_dir(path.path())?, &path);
        }
    }
    let dir = workspace.root.open_dir(start.path())?;
    let left = entries(&dir, &mut end)?;
    let mut stack = vec![Frame { dir, path: start.clone(), rules, left }];
    let mut looked_at = 0;
    loop {
        let depth = stack.len();
        let Some(frame) = stack.last_mut() else { return Ok(end) };
        let Some((name, kind)) = frame.left.next() else {
            stack.pop();
            continue;
        };
        looked_at += 1;
        if looked_at > scope.max_entries {
            return Ok(WalkEnd::TooMany);
        }
        let path = frame.path.join(&name);
        let is_folder = kind == FileKind::Folder;
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        // A walk enters the folder of a repository only if it starts there.
        if name == ".git" || !scope.all && (is_hidden || frame.rules.is_ignored(&path, is_folder)) {
            continue;
        }
        if visit(WalkEntry { dir: &frame.dir, name: &name, path: &path, kind }).is_break() {
            return Ok(WalkEnd::Stopped);
        }
        if !is_folder || depth >= scope.depth.min(MAX_DEPTH) {
            continue;
        }
        // A folder that is gone or unreadable is skipped.
        let Ok(dir) = frame.dir.open_dir(&name) else { continue };
        let Ok(left) = entries(&dir, &mut end) else { continue };
        let rules = if scope.all { IgnoreRules::default() } else { frame.rules.with_folder(&dir, &path) };
        stack.push(Frame { dir, path, rules, left });
    }
}

/// Returns the entries of a folder sorted by name, and sets `end` if there are too many.
fn entries(dir: &Dir, end: &mut WalkEnd) -> io::Result<std::vec::IntoIter<(OsString, FileKind)>> {
    let mut entries = Vec::new();
    for entry in dir.entries()?.flatten() {
        if entries.len() == MAX_NAMES {
            *end = WalkEnd::TooMany;
            break;
        }
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => FileKind::Folder,
            Ok(kind) if kind.is_file() => FileKind::File,
            Ok(kind) if kind.is_symlink() => FileKind::Link,
            Ok(_) => FileKind::Other,
            Err(_) => continue,
        };
        entries.push((entry.file_name(), kind));
    }
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn workspace(files: &[(&str, &str)]) -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let workspace = Workspace::open(folder.path()).unwrap();
        (folder, workspace)
    }

    fn seen(workspace: &Workspace, start: &str, scope: &WalkOptions) -> (Vec<String>, WalkEnd) {
        let mut seen = Vec::new();
        let end = walk(workspace, &WorkspacePath::of(start.into()), scope, |found| {
            seen.push(found.path.to_string());
            ControlFlow::Continue(())
        });
        (seen, end.unwrap())
    }

    #[test]
    fn walk_is_sorted_and_skips_hidden_and_ignored_entries() {
        let (_folder, workspace) = workspace(&[
            (".gitignore", "*.log\n/target/\n!keep.log\n"),
            (".env", ""),
            (".git/config", ""),
            ("b.rs", ""),
            ("a.log", ""),
            ("keep.log", ""),
            ("target/x", ""),
            ("src/target/y", ""),
            ("src/.gitignore", "gen.rs\n"),
            ("src/gen.rs", ""),
            ("src/a.rs", ""),
            ("src/deep/gen.rs", ""),
            ("gen.rs", ""),
        ]);
        let all = |start| seen(&workspace, start, &WalkOptions::default()).0;
        let shown = ["b.rs", "gen.rs", "keep.log", "src", "src/a.rs", "src/deep", "src/target", "src/target/y"]
            .map(str::to_owned);
        assert_eq!(all("."), shown);
        assert_eq!(all("src/deep"), Vec::<String>::new(), "rules of parent folders also apply");
        assert_eq!(all("target"), ["target/x"], "an explicit start is walked");
        let everything = seen(&workspace, ".", &WalkOptions { all: true, ..WalkOptions::default() }).0;
        assert!(everything.contains(&".env".to_owned()) && everything.contains(&"src/gen.rs".to_owned()));
        assert!(!everything.iter().any(|path| path.starts_with(".git/")));
    }

    #[test]
    fn walk_is_bounded_in_depth_and_entries() {
        let (_folder, workspace) = workspace(&[("a/b/c/d", ""), ("e", "")]);
        let of = |depth, max_entries| seen(&workspace, ".", &WalkOptions { depth, max_entries, all: false });
        assert_eq!(of(1, 100), (vec!["a".into(), "e".into()], WalkEnd::Complete));
        assert_eq!(of(2, 100), (vec!["a".into(), "a/b".into(), "e".into()], WalkEnd::Complete));
        assert_eq!(of(9, 2), (vec!["a".into(), "a/b".into()], WalkEnd::TooMany));
    }

    #[test]
    fn links_are_visited_but_not_followed() {
        let (folder, workspace) = workspace(&[("a/x", "")]);
        std::os::unix::fs::symlink("/etc", folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink("..", folder.path().join("a/up")).unwrap();
        assert_eq!(seen(&workspace, ".", &WalkOptions::default()).0, ["a", "a/up", "a/x", "out"]);
    }
}
