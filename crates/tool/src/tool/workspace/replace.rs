//! Atomic replacement of a file: readers see the old content or the new content, never a mixture.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::Workspace;
use super::file;
use super::path::{WorkspacePath, fault};
use crate::tool::ToolError;

/// Maximum length of the file name that the name of the temporary file repeats.
const MAX_REPEATED_BYTES: usize = 100;
/// Maximum number of names tried for the temporary file.
const MAX_TRIES: u32 = 16;
/// Permissions of a new file, before the umask of the process.
const NEW_FILE_MODE: u32 = 0o666;
/// The write bits of the permissions.
const WRITE_BITS: u32 = 0o222;

/// The file to write.
#[derive(Debug)]
pub(super) struct Target {
    dir: Dir,
    name: OsString,
    path: WorkspacePath,
    /// The permissions of the existing file.
    mode: Option<u32>,
}

impl Target {
    /// Returns `true` if the file does not exist yet.
    pub fn is_new(&self) -> bool {
        self.mode.is_none()
    }
}

impl Workspace {
    /// Resolves the file to write. Missing parent folders are created. A symbolic link is followed, so its target is
    /// replaced instead of the link.
    ///
    /// # Errors
    /// Returns an error if the path is not a regular file or cannot be written.
    pub(super) fn target(&self, path: &WorkspacePath) -> Result<Target, ToolError> {
        let at = |error: io::Error| fault(path, &error);
        let real = match self.root.canonicalize(path.path()) {
            Ok(real) => WorkspacePath::of(real),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_parents(path)?,
            Err(error) => return Err(at(error)),
        };
        let (Some(parent), Some(name)) = (real.parent(), real.name()) else { return Err(file::folder(path)) };
        let dir = self.root.open_dir(parent.path()).map_err(at)?;
        let mode = match dir.symlink_metadata(name) {
            Ok(metadata) if metadata.is_dir() => return Err(file::folder(path)),
            Ok(metadata) if !metadata.is_file() => return Err(file::special(path)),
            Ok(metadata) if metadata.mode() & WRITE_BITS == 0 => {
                return Err(ToolError::new(format!("\"{path}\" is read-only")));
            }
            Ok(metadata) => Some(metadata.mode() & 0o7777),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(at(error)),
        };
        Ok(Target { dir, name: name.to_owned(), path: real, mode })
    }

    /// Creates the parent folders of a new file and returns its path.
    fn create_parents(&self, path: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
        let at = |error: io::Error| fault(path, &error);
        if self.root.symlink_metadata(path.path()).is_ok() {
            return Err(ToolError::new(format!("\"{path}\" is a symbolic link whose target does not exist")));
        }
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(file::folder(path)) };
        if !parent.is_root() {
            self.root.create_dir_all(parent.path()).map_err(at)?;
        }
        let parent = self.root.canonicalize(parent.path()).map_err(at)?;
        Ok(WorkspacePath::of(parent).join(name))
    }
}

impl Target {
    /// Replaces the file with the given content.
    ///
    /// # Errors
    /// Returns an error if writing fails; the file is then unchanged.
    pub fn replace(&self, content: &[u8], unique: u128) -> Result<(), ToolError> {
        let at = |error: io::Error| fault(&self.path, &error);
        let (name, mut file) = self.temporary(unique).map_err(at)?;
        let written = (|| {
            if let Some(mode) = self.mode {
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            file.write_all(content)?;
            // Success promises that the content is on disk.
            file.sync_data()?;
            self.dir.rename(&name, &self.dir, &self.name)
        })();
        written.map_err(|error| {
            // The first error matters, not one of the cleanup.
            let _ = self.dir.remove_file(&name);
            at(error)
        })
    }

    /// Creates a hidden temporary file with a unique name in the same folder.
    fn temporary(&self, unique: u128) -> io::Result<(OsString, cap_std::fs::File)> {
        let text = self.name.to_string_lossy();
        let own = &text[..text.floor_char_boundary(MAX_REPEATED_BYTES)];
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(self.mode.map_or(NEW_FILE_MODE, |_| 0o600));
        let mut last = io::ErrorKind::AlreadyExists.into();
        for number in 0..MAX_TRIES {
            let name = OsString::from(format!(".{own}.{unique:032x}{number:x}.tmp"));
            match self.dir.open_with(Path::new(&name), &options) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(folder: &Path, path: &str, content: &str) -> Result<bool, String> {
        let workspace = Workspace::open(folder).unwrap();
        let target = workspace.target(&workspace.resolve(path).unwrap()).map_err(|error| error.message().to_owned())?;
        target.replace(content.as_bytes(), 7).map_err(|error| error.message().to_owned())?;
        Ok(target.is_new())
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replacing_keeps_permissions_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(put(folder.path(), "a/b/new.sh", "1"), Ok(true));
        let file = folder.path().join("a/b/new.sh");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(put(folder.path(), "a/b/new.sh", "2"), Ok(false));
        assert_eq!(fs::read_to_string(&file).unwrap(), "2");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(names(&folder.path().join("a/b")), ["new.sh"]);
    }

    #[test]
    fn links_are_followed_only_within_the_workspace() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("real")).unwrap();
        fs::write(folder.path().join("real/file"), "old").unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        link(Path::new("real/file"), "file");
        link(Path::new("real"), "folder");
        link(outside.path(), "out");
        link(&outside.path().join("x"), "out_file");
        link(Path::new("nowhere"), "dangling");
        assert_eq!(put(folder.path(), "file", "new"), Ok(false));
        assert!(folder.path().join("file").is_symlink());
        assert_eq!(put(folder.path(), "folder/deep/other", "x"), Ok(true));
        assert_eq!(names(&folder.path().join("real")), ["deep", "file"]);
        assert_eq!(fs::read_to_string(folder.path().join("real/file")).unwrap(), "new");
        for path in ["out/x", "out/deep/x", "out_file", "out"] {
            let message = put(folder.path(), path, "x").unwrap_err();
            assert!(message.contains("leads out of the workspace"), "{path}: {message}");
        }
        assert!(put(folder.path(), "dangling", "x").unwrap_err().contains("does not exist"));
        assert_eq!(names(outside.path()), Vec::<String>::new());
    }

    #[test]
    fn non_files_and_read_only_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("f"), "x").unwrap();
        fs::set_permissions(folder.path().join("f"), fs::Permissions::from_mode(0o444)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        for (path, message) in [
            ("d", "is a folder"),
            (".", "is a folder"),
            ("f", "\"f\" is read-only"),
            ("pipe", "not a regular file"),
            ("f/x", "is a file, not a folder"),
        ] {
            let error = put(folder.path(), path, "y").unwrap_err();
            assert!(error.contains(message), "{path}: {error}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "x");
        assert_eq!(names(folder.path()), ["d", "f", "pipe"]);
    }
}
