//! The working directory of a program: an existing directory, or a temporary directory for one run.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::program::{RunAs, WorkDirSpec};

/// A working directory. Dropping it removes a temporary directory.
pub struct WorkDir {
    /// The path of the directory.
    pub path: PathBuf,
    is_own: bool,
}

impl WorkDir {
    /// Opens the given directory, or creates a temporary directory owned by the user of the program.
    ///
    /// # Errors
    /// Returns a message if the directory does not exist or cannot be created.
    pub fn of(spec: &WorkDirSpec, user: Option<RunAs>) -> Result<Self, String> {
        match spec {
            WorkDirSpec::Folder(path) if path.is_dir() => Ok(Self { path: path.clone(), is_own: false }),
            WorkDirSpec::Folder(path) => Err(format!("its working directory {} does not exist", path.display())),
            WorkDirSpec::Temporary(path) => fresh(path, user)
                .map(|path| Self { path, is_own: true })
                .map_err(|error| format!("cannot create its working directory: {error}")),
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.is_own {
            remove(&self.path);
        }
    }
}

/// Creates a directory that only this user can enter.
fn fresh(path: &Path, user: Option<RunAs>) -> io::Result<PathBuf> {
    DirBuilder::new().mode(0o700).create(path)?;
    if let Some(user) = user {
        chown(path, Some(user.uid), Some(user.gid))?;
    }
    path.canonicalize()
}

/// Removes a directory with its contents, including read-only ones. The rest is left to the cleanup of temporary files
/// by the operating system.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        open(path);
        let _ = fs::remove_dir_all(path);
    }
}

/// Makes all directories below accessible to this user, without following symbolic links.
fn open(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let below = fs::read_dir(folder).into_iter().flatten().flatten();
        folders
            .extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_directories_are_removed() {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path().join("own");
        let own = fresh(&path, None).unwrap();
        fs::create_dir_all(own.join("a/b")).unwrap();
        fs::write(own.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), own.join("link")).unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        fs::set_permissions(own.join("a/b"), Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(own.join("a"), Permissions::from_mode(0o000)).unwrap();
        remove(&own);
        assert!(!path.exists() && outside.path().join("kept").exists());
    }
}
