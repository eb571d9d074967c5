//! Paths in the workspace, parsed from what models write.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Workspace;
use crate::tool::ToolError;
use toolpost_core::domain::json::shorten;

/// Maximum length of a path in a message.
const MAX_SHOWN: usize = 200;
/// The OS error for too many levels of symbolic links.
const ELOOP: i32 = 40;

/// A path relative to the workspace, without `.` and `..`; empty for the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WorkspacePath(PathBuf);

impl WorkspacePath {
    /// Returns the path for opening: `.` for the workspace itself.
    pub fn path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// Returns the parent folder; `None` for the workspace itself.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    pub fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }

    /// Returns the path and all its parents, starting with the workspace.
    pub fn ancestors(&self) -> Vec<Self> {
        let mut way: Vec<Self> = self.0.ancestors().map(|path| Self(path.to_owned())).collect();
        way.reverse();
        way
    }

    /// Wraps a path that is known to be within the workspace.
    pub fn of(path: PathBuf) -> Self {
        if path == Path::new(".") { Self::default() } else { Self(path) }
    }
}

/// Formats the path as a model may write it. Control characters are escaped.
impl fmt::Display for WorkspacePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.path().to_string_lossy();
        if text.chars().any(char::is_control) {
            write!(formatter, "{}", text.escape_debug())
        } else {
            formatter.write_str(&text)
        }
    }
}

impl Workspace {
    /// Resolves a path that a model wrote.
    ///
    /// # Errors
    /// Returns an error if the path is outside the workspace.
    pub(super) fn resolve(&self, requested: &str) -> Result<WorkspacePath, ToolError> {
        let shown = shorten(requested, MAX_SHOWN);
        if requested.contains('\0') {
            return Err(ToolError::new(format!("the path \"{}\" contains U+0000", shown.escape_debug())));
        }
        let path = Path::new(requested);
        let relative = if path.is_absolute() {
            // Other tools and the messages of programs use absolute paths.
            let inside = path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given));
            inside.map_err(|_| outside(&shown))?
        } else {
            path
        };
        let mut resolved = PathBuf::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => resolved.push(name),
                Component::CurDir => {}
                Component::ParentDir if resolved.pop() => {}
                _ => return Err(outside(&shown)),
            }
        }
        Ok(WorkspacePath(resolved))
    }
}

fn outside(requested: &str) -> ToolError {
    ToolError::new(format!(
        "\"{requested}\" is outside of the workspace; paths are relative to its folder, as in \"src/main.rs\""
    ))
}

/// Converts an I/O error to a message for the model. [`near`](super::near) handles missing paths with suggestions.
pub(super) fn fault(path: &WorkspacePath, error: &io::Error) -> ToolError {
    let path = shorten(&path.to_string(), MAX_SHOWN);
    let message = match (error.kind(), error.raw_os_error()) {
        // An error of the descriptor guard itself has no OS error number.
        (io::ErrorKind::PermissionDenied, None) => {
            format!("\"{path}\" leads out of the workspace through a symbolic link")
        }
        (io::ErrorKind::PermissionDenied, _) => format!("permission denied for \"{path}\""),
        (io::ErrorKind::NotFound, _) => format!("\"{path}\" was not found"),
        (io::ErrorKind::NotADirectory, _) => format!("a part of \"{path}\" is a file, not a folder"),
        (io::ErrorKind::ReadOnlyFilesystem, _) => "the workspace is read-only".to_owned(),
        (io::ErrorKind::InvalidFilename, _) => format!("the path \"{path}\" is too long"),
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => {
            "no space is left in the workspace".to_owned()
        }
        (_, Some(ELOOP)) => format!("\"{path}\" has too many levels of symbolic links"),
        _ => format!("\"{path}\" cannot be used: {error}"),
    };
    ToolError::new(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_within_the_workspace_or_fail() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let inside = workspace.path().join("a/b").display().to_string();
        for (requested, expected) in [
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/x/../b", "a/b"),
            ("", "."),
            (".", "."),
            ("a/..", "."),
            ("ä/文件 1", "ä/文件 1"),
            ("..a", "..a"),
            ("~/x", "~/x"),
            (&inside, "a/b"),
        ] {
            assert_eq!(workspace.resolve(requested).unwrap().to_string(), expected, "{requested}");
        }
        for requested in ["..", "../x", "a/../..", "/etc/passwd", "/", "a/../../b", &format!("{inside}/../../../x")] {
            let message = workspace.resolve(requested).unwrap_err().message().to_owned();
            assert!(message.contains("is outside of the workspace"), "{requested}: {message}");
        }
        assert!(workspace.resolve("a\0b").unwrap_err().message().contains("U+0000"));
    }

    #[test]
    fn configured_path_is_accepted_as_prefix() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let workspace = Workspace::open(&link).unwrap();
        assert_eq!(workspace.resolve(link.join("x").to_str().unwrap()).unwrap(), WorkspacePath::of("x".into()));
    }

    #[test]
    fn ancestors_start_with_the_workspace() {
        let way: Vec<String> = WorkspacePath::of("a/b".into()).ancestors().iter().map(ToString::to_string).collect();
        assert_eq!(way, [".", "a", "a/b"]);
        assert_eq!(WorkspacePath::default().ancestors(), [WorkspacePath::default()]);
        assert_eq!(
            (WorkspacePath::of("a".into()).parent(), WorkspacePath::default().parent()),
            (Some(WorkspacePath::default()), None)
        );
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(WorkspacePath::of("a\nb".into()).to_string(), "a\\nb");
    }
}
