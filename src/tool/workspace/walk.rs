//! A bounded walk through a folder by descriptors, in a stable order, which never leaves the folder.

use std::ffi::{OsStr, OsString};
use std::io;

use cap_std::fs::{Dir, FileType};

use super::Workspace;
use super::ignore_rules::{self, IgnoreRules};
use super::path::WorkspacePath;

/// Maximum depth of the walk, counted from its start. It equals the maximum number of open descriptors.
pub(super) const MAX_DEPTH: usize = 64;
/// Maximum number of names read per folder.
const MAX_NAMES: usize = 100_000;

/// Options of a walk.
#[derive(Debug, Clone)]
pub(super) struct WalkOptions {
    /// Maximum depth; 1 is the folder itself.
    pub depth: usize,
    /// Maximum number of visited entries.
    pub most: usize,
    /// Includes hidden and ignored entries.
    pub all: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { depth: MAX_DEPTH, most: 200_000, all: false }
    }
}

/// The kind of an entry. Symbolic links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub place: &'w WorkspacePath,
    pub kind: FileKind,
}

/// Whether a walk continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkFlow {
    Continue,
    Stop,
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
    place: WorkspacePath,
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
    visit: &mut dyn FnMut(WalkEntry<'_>) -> WalkFlow,
) -> io::Result<WalkEnd> {
    let mut rules = IgnoreRules::default();
    let mut end = WalkEnd::Complete;
    if !scope.all {
        for place in start.ancestors() {
            rules = rules.with_folder(&workspace.root.open_dir(place.path())?, &place);
        }
    }
    let dir = workspace.root.open_dir(start.path())?;
    let (left, is_whole) = names(&dir)?;
    if !is_whole {
        end = WalkEnd::TooMany;
    }
    let mut stack = vec![Frame { dir, place: start.clone(), rules, left }];
    let mut looked_at = 0;
    while let Some(frame) = stack.last_mut() {
        let Some((name, kind)) = frame.left.next() else {
            stack.pop();
            continue;
        };
        looked_at += 1;
        if looked_at > scope.most {
            return Ok(WalkEnd::TooMany);
        }
        let place = frame.place.join(&name);
        let is_folder = kind == FileKind::Folder;
        let is_left_out = ignore_rules::is_repository(&place)
            || !scope.all && (ignore_rules::is_hidden(&place) || frame.rules.is_ignored(&place, is_folder));
        if is_left_out {
            continue;
        }
        if visit(WalkEntry { dir: &frame.dir, name: &name, place: &place, kind }) == WalkFlow::Stop {
            return Ok(WalkEnd::Stopped);
        }
        if !is_folder || stack.len() >= scope.depth.min(MAX_DEPTH) {
            continue;
        }
        let Some(frame) = stack.last() else { continue };
        // A folder that is gone or unreadable is skipped.
        let Ok(dir) = frame.dir.open_dir(&name) else { continue };
        let Ok((left, is_whole)) = names(&dir) else { continue };
        if !is_whole {
            end = WalkEnd::TooMany;
        }
        let rules = if scope.all { IgnoreRules::default() } else { frame.rules.with_folder(&dir, &place) };
        stack.push(Frame { dir, place, rules, left });
    }
    Ok(end)
}

/// Returns the entries of a folder sorted by name, and `true` if they are complete.
fn names(dir: &Dir) -> io::Result<(std::vec::IntoIter<(OsString, FileKind)>, bool)> {
    let mut names: Vec<(OsString, FileKind)> = Vec::new();
    let mut is_whole = true;
    for entry in dir.entries()?.flatten() {
        if names.len() == MAX_NAMES {
            is_whole = false;
            break;
        }
        let Ok(kind) = entry.file_type() else { continue };
        names.push((entry.file_name(), kind_of(kind)));
    }
    names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok((names.into_iter(), is_whole))
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        kind if kind.is_dir() => FileKind::Folder,
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_symlink() => FileKind::Link,
        _ => FileKind::Other,
    }
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
        let end = walk(workspace, &WorkspacePath::of(start.into()), scope, &mut |found| {
            seen.push(found.place.to_string());
            WalkFlow::Continue
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
        assert!(!everything.iter().any(|place| place.starts_with(".git/")));
    }

    #[test]
    fn walk_is_bounded_in_depth_and_entries() {
        let (_folder, workspace) = workspace(&[("a/b/c/d", ""), ("e", "")]);
        let of = |depth, most| seen(&workspace, ".", &WalkOptions { depth, most, all: false });
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
